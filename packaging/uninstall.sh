#!/bin/sh
# Removes what install.sh installed. Configuration, account and state stay. Run it as root, or give a staging root in
# BURROW_GATEWAY_ROOT (or DESTDIR).
set -eu

ROOT=${BURROW_GATEWAY_ROOT:-${DESTDIR:-}}
ROOT=${ROOT%/}

fail() {
    echo "burrow-host-gateway: $*" >&2
    exit 1
}

if [ -z "$ROOT" ] && [ "$(id -u)" -ne 0 ]; then
    fail "uninstalling needs root: sudo $0"
fi
if [ -e "$ROOT/var/lib/dpkg/info/burrow-host-gateway.md5sums" ]; then
    fail "this host has the Debian package: apt remove burrow-host-gateway"
fi
if [ -z "$ROOT" ] && { [ -n "${SYSTEMCTL:-}" ] || [ -d /run/systemd/system ]; }; then
    if "${SYSTEMCTL:-systemctl}" cat burrow-host-gateway.service >/dev/null 2>&1; then
        "${SYSTEMCTL:-systemctl}" disable --now burrow-host-gateway.service || fail "the service can't be stopped; nothing was removed"
    fi
fi

rm -f "$ROOT/etc/systemd/system/burrow-host-gateway.service"
for name in node-goblin burrow-host-gateway; do
    path=$ROOT/usr/local/bin/$name
    # A command of that name that is somebody else's stays.
    case $(readlink "$path" 2>/dev/null || true) in
        /opt/burrow-host-gateway/*) rm -f "$path" ;;
    esac
done
for page in "$ROOT"/usr/local/share/man/man1/node-goblin.1 "$ROOT"/usr/local/share/man/man1/node-goblin-*.1; do
    [ ! -e "$page" ] || rm -f "$page"
done
rm -f "$ROOT/usr/local/share/man/man1/burrow-host-gateway.1" \
    "$ROOT/usr/local/share/bash-completion/completions/node-goblin" \
    "$ROOT/usr/local/share/zsh/site-functions/_node-goblin" \
    "$ROOT/usr/local/share/fish/vendor_completions.d/node-goblin.fish"
for file in node-goblin burrow-host-gateway LICENSE VERSION sbom.cdx.json gateway.env uninstall.sh; do
    rm -f "$ROOT/opt/burrow-host-gateway/$file"
done
rmdir "$ROOT/opt/burrow-host-gateway" 2>/dev/null || true
if [ -z "$ROOT" ] && { [ -n "${SYSTEMCTL:-}" ] || [ -d /run/systemd/system ]; }; then
    "${SYSTEMCTL:-systemctl}" daemon-reload || true
fi
echo "removed; configuration (/etc/burrow-host-gateway), state (/var/lib/burrow-host-gateway) and the account burrow are kept"
