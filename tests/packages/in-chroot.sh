#!/bin/sh
# Runs inside a throw-away Debian root without systemd running: installs, configures, connects, unpairs, removes and
# purges for real, with a stand-in for systemctl that notes its calls. /packages holds what was built.
set -eu
export SYSTEMCTL=/packages/systemctl PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
ENV=/etc/burrow-host-gateway/gateway.env
STATE=/var/lib/burrow-host-gateway

step() { echo "-- $*"; }
fail() {
    echo "FAILED: $*" >&2
    exit 1
}
expect() { # TEXT COMMAND…
    text=$1
    shift
    said=$("$@" 2>&1) || true
    case $said in
        *"$text"*) ;;
        *) fail "$*: no '$text' in: $said" ;;
    esac
}
must_fail() { # TEXT COMMAND…
    text=$1
    shift
    if said=$("$@" 2>&1); then fail "$* should not work: $said"; fi
    case $said in
        *"$text"*) ;;
        *) fail "$*: no '$text' in: $said" ;;
    esac
}
calls() {
    cat /root/calls 2>/dev/null || true
    rm -f /root/calls
}
owner() { stat -c '%U:%G %a' "$1"; }
deb=$(echo /packages/*.deb)
mkdir -p /tmp/archive
tar xzf /packages/*.tar.gz -C /tmp/archive --strip-components=1
rm -f /root/calls

step "a UID that belongs to another: nothing is unpacked"
useradd --system --uid 4226 --user-group badger
must_fail "UID 4226 belongs to badger" dpkg -i "$deb"
must_fail "UID 4226 belongs to badger" /tmp/archive/install.sh
[ ! -e /opt/burrow-host-gateway ] || fail "something was unpacked"
userdel badger
dpkg --purge burrow-host-gateway >/dev/null 2>&1 || true

step "a user burrow with another primary group"
useradd --system --gid users burrow
must_fail "primary group is not burrow" dpkg -i "$deb"
must_fail "primary group is not burrow" /tmp/archive/install.sh
userdel burrow
groupdel burrow 2>/dev/null || true
dpkg --purge burrow-host-gateway >/dev/null 2>&1 || true

step "an existing account with another number is adopted"
groupadd --system --gid 777 burrow
useradd --system --uid 776 --gid burrow --home-dir /nonexistent --shell /usr/sbin/nologin burrow
rm -f /root/calls
dpkg -i "$deb" >/tmp/said
[ "$(id -u burrow)" = 776 ] || fail "the account was changed"
[ "$(owner $STATE)" = "burrow:burrow 700" ] || fail "state: $(owner $STATE)"
dpkg --purge burrow-host-gateway >/dev/null
userdel burrow

step "the Debian package on a fresh host"
rm -f /root/calls
dpkg -i "$deb" >/tmp/said
grep -q "next: node-goblin configure" /tmp/said || fail "no next step: $(cat /tmp/said)"
[ "$(calls)" = "daemon-reload" ] || fail "the installer did more than reload"
[ "$(id -u burrow):$(id -g burrow)" = 4226:4226 ] || fail "numbers"
case $(getent passwd burrow) in
    burrow:*:4226:4226:*:/nonexistent:/usr/sbin/nologin) ;;
    *) fail "account: $(getent passwd burrow)" ;;
esac
[ "$(owner $ENV)" = "root:burrow 640" ] || fail "configuration: $(owner $ENV)"
[ "$(owner $STATE)" = "burrow:burrow 700" ] || fail "state: $(owner $STATE)"
dpkg --verify burrow-host-gateway | grep . && fail "files differ from the package"

step "as somebody without rights"
must_fail "needs root" setpriv --reuid nobody --regid nogroup --clear-groups node-goblin status
must_fail "needs root" setpriv --reuid nobody --regid nogroup --clear-groups node-goblin configure a:1 x
must_fail "needs root" setpriv --reuid nobody --regid nogroup --clear-groups sh /tmp/archive/install.sh

step "configure, connect"
must_fail "no controller is configured" node-goblin connect
node-goblin configure '[::1]:7443' host-1
[ "$(owner $ENV)" = "root:burrow 640" ] || fail "configuration: $(owner $ENV)"
# A code as a daemon would leave it.
setpriv --reuid burrow --regid burrow --clear-groups sh -c "umask 077; printf '%s' '{\"gatewayId\":\"host-1\",\"pairingCode\":\"AAAA-BBBB-CCCC\",\"updatedAt\":\"2026-01-01T00:00:00.000Z\"}' >$STATE/pairing-code.json"
rm -f /root/calls
expect "pairing code: AAAA-BBBB-CCCC" node-goblin connect
[ "$(calls)" = "daemon-reload
enable burrow-host-gateway.service
start burrow-host-gateway.service" ] || fail "calls of connect"
expect "AAAA-BBBB-CCCC" node-goblin pairing-code
expect '"standing": "waiting"' node-goblin status --json
expect "waits for an operator's approval" burrow-host-gateway status

step "an upgrade leaves the service running and everything as it was"
sha256sum $ENV $STATE/pairing-code.json >/tmp/before
rm -f /root/calls
dpkg -i "$deb" >/tmp/said
grep -q "still runs the earlier program" /tmp/said || fail "no word on changing over: $(cat /tmp/said)"
[ "$(calls | grep -Ev '^--quiet')" = "daemon-reload" ] || fail "an upgrade did more than reload"
sha256sum -c --quiet /tmp/before

step "unpair, remove, purge"
rm -f /root/calls
node-goblin unpair
[ "$(calls)" = "stop burrow-host-gateway.service" ] || fail "calls of unpair"
[ ! -e $STATE/pairing-code.json ] && [ -e $STATE/controller-enrollment-consumed ] || fail "unpair"
[ "$(owner $STATE/controller-enrollment-consumed)" = "burrow:burrow 600" ] || fail "the marker is not the account's"
must_fail "apt remove" node-goblin uninstall
dpkg -r burrow-host-gateway >/dev/null
[ "$(calls)" = "disable --now burrow-host-gateway.service
daemon-reload" ] || fail "calls of a removal"
[ -e $ENV ] && [ -e $STATE/controller-enrollment-consumed ] && [ ! -e /opt/burrow-host-gateway/node-goblin ] || fail "removal"
id burrow >/dev/null || fail "the account went"
dpkg -P burrow-host-gateway >/dev/null
[ ! -e /etc/burrow-host-gateway ] && [ ! -e $STATE ] && [ ! -e /opt/burrow-host-gateway ] || fail "purge"
id burrow >/dev/null || fail "the account went"

nodejs() {
    mkdir -p /opt/burrow-host-gateway/gateway /etc/burrow-host-gateway $STATE
    echo "console.log('old')" >/opt/burrow-host-gateway/gateway/cli.mjs
    printf '[Service]\nExecStart=/usr/bin/node /opt/burrow-host-gateway/gateway/cli.mjs\nUser=burrow\n' \
        >/etc/systemd/system/burrow-host-gateway.service
    printf 'BURROW_GATEWAY_CONTROLLER_URL=tls://c.example:7443 \r\nBURROW_GATEWAY_ID=old-host\r\n' >$ENV
    echo '{"entries":[]}' >$STATE/operations.json
    chown -R burrow:burrow $STATE
    chmod 700 $STATE
    sha256sum $ENV $STATE/operations.json >/tmp/before
}

step "over an installation of the Node.js program, by the Debian package"
nodejs
dpkg -i "$deb" >/tmp/said
[ -e /opt/burrow-host-gateway.nodejs/gateway/cli.mjs ] || fail "the old program is not aside"
[ -e /opt/burrow-host-gateway.nodejs/burrow-host-gateway.service ] || fail "its unit is not aside"
[ ! -e /etc/systemd/system/burrow-host-gateway.service ] || fail "its unit hides ours"
sha256sum -c --quiet /tmp/before
expect "old-host" node-goblin status
step "and back again"
dpkg -r burrow-host-gateway >/dev/null
mv /opt/burrow-host-gateway.nodejs/burrow-host-gateway.service /etc/systemd/system/
mv /opt/burrow-host-gateway.nodejs /opt/burrow-host-gateway
sha256sum -c --quiet /tmp/before

step "over it, by the archive; /usr is read-only"
nodejs
# Even root can't write here.
mount --bind /usr /usr 2>/dev/null && mount -o remount,bind,ro /usr && readonly_usr=yes || readonly_usr=no
echo "   read-only /usr: $readonly_usr"
rm -f /root/calls
dpkg -P burrow-host-gateway >/dev/null 2>&1 || true
nodejs
/tmp/archive/install.sh >/tmp/said
[ "$readonly_usr" = no ] || grep -q "call the program as /opt" /tmp/said || fail "$(cat /tmp/said)"
[ -e /opt/burrow-host-gateway.nodejs/gateway/cli.mjs ] || fail "the old program is not aside"
grep -q '^Type=notify' /etc/systemd/system/burrow-host-gateway.service || fail "the unit is not ours"
sha256sum -c --quiet /tmp/before
calls | grep -Ev '^(--quiet|daemon-reload)' && fail "the installer did more than reload"
expect "old-host" /opt/burrow-host-gateway/node-goblin status
echo active >/root/unit-state
/opt/burrow-host-gateway/node-goblin uninstall
[ "$(cat /root/unit-state)" = inactive ] || fail "the service was not stopped"
[ ! -e /opt/burrow-host-gateway ] && [ ! -e /etc/systemd/system/burrow-host-gateway.service ] || fail "uninstall"
sha256sum -c --quiet /tmp/before
id burrow >/dev/null || fail "the account went"
[ "$readonly_usr" = no ] || umount --lazy /usr
echo "-- all well in the root"
