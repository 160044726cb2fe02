#!/bin/sh
# Installs the gateway of a host from the archive that this script lies in. Run it as root, or give a staging root in
# BURROW_GATEWAY_ROOT (or DESTDIR). It never starts the service and leaves existing configuration and state alone.
set -eu

ROOT=${BURROW_GATEWAY_ROOT:-${DESTDIR:-}}
ROOT=${ROOT%/}
here=$(cd -- "$(dirname -- "$0")" && pwd)

# @include account.sh

case $ROOT in
    "" | /*) ;;
    *) fail "BURROW_GATEWAY_ROOT is an absolute path, not $ROOT" ;;
esac
[ -z "$ROOT" ] || [ -d "$ROOT" ] || fail "$ROOT is no directory"
if [ -z "$ROOT" ] && [ "$(id -u)" -ne 0 ]; then
    fail "installing needs root: sudo $0"
fi
[ -z "$ROOT" ] || export BURROW_GATEWAY_ROOT="$ROOT"
# dpkg's list of files outlives a removal, its checksums do not.
if [ -e "$ROOT/var/lib/dpkg/info/burrow-host-gateway.md5sums" ]; then
    fail "this host has the Debian package: install the newer .deb, or apt remove burrow-host-gateway first"
fi
[ -x "$here/node-goblin" ] || fail "$here/node-goblin is missing: run this from the unpacked archive"
"$here/node-goblin" --version >/dev/null || fail "the program does not run here: is the archive for this machine?"
check_account
{ mkdir -p "$ROOT/opt" 2>/dev/null && [ -w "$ROOT/opt" ]; } || fail "$ROOT/opt can't be written"

umask 022
move_nodejs_aside
make_account

# Each file is replaced by a rename, so that a daemon that runs keeps its own.
put() {
    mode=$1 from=$2 to=$ROOT$3
    mkdir -p "$(dirname "$to")"
    cp "$from" "$to.new"
    chmod "$mode" "$to.new"
    mv -f "$to.new" "$to"
}
link() {
    mkdir -p "$(dirname "$ROOT$2")"
    ln -sfn "$1" "$ROOT$2"
}

put 0755 "$here/node-goblin" "$PROGRAM_DIR/node-goblin"
link node-goblin "$PROGRAM_DIR/burrow-host-gateway"
put 0755 "$here/uninstall.sh" "$PROGRAM_DIR/uninstall.sh"
for file in LICENSE VERSION sbom.cdx.json gateway.env; do
    put 0644 "$here/$file" "$PROGRAM_DIR/$file"
done
put 0644 "$here/burrow-host-gateway.service" /etc/systemd/system/burrow-host-gateway.service
make_configuration "$here/gateway.env"

# Names to type, pages to read: conveniences, which a read-only /usr does without.
if mkdir -p "$ROOT/usr/local/bin" 2>/dev/null && [ -w "$ROOT/usr/local/bin" ]; then
    link "$PROGRAM_DIR/node-goblin" /usr/local/bin/node-goblin
    link "$PROGRAM_DIR/burrow-host-gateway" /usr/local/bin/burrow-host-gateway
    for page in "$here"/man/*.1; do
        put 0644 "$page" "/usr/local/share/man/man1/$(basename "$page")"
    done
    link node-goblin.1 /usr/local/share/man/man1/burrow-host-gateway.1
    put 0644 "$here/completions/node-goblin.bash" /usr/local/share/bash-completion/completions/node-goblin
    put 0644 "$here/completions/_node-goblin" /usr/local/share/zsh/site-functions/_node-goblin
    put 0644 "$here/completions/node-goblin.fish" /usr/local/share/fish/vendor_completions.d/node-goblin.fish
else
    echo "/usr/local can't be written: call the program as $PROGRAM_DIR/node-goblin"
fi

reload_systemd
echo "installed $("$here/node-goblin" --version)"
say_next
