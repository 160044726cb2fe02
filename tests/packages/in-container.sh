#!/bin/bash
# Runs as a service inside a container that was booted with systemd: the whole life of a host with the real service
# manager. The controller runs outside, on the loopback of a shared network; /exchange carries words between the two.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
UNIT=burrow-host-gateway.service
STATE=/var/lib/burrow-host-gateway
port=$(cat /exchange/port)

finish() {
    echo "$1" >/exchange/result
    journalctl --no-pager -o verbose -u $UNIT >/exchange/journal 2>&1 || true
    journalctl --no-pager -n 200 >/exchange/journal.short 2>&1 || true
    systemctl poweroff --force
}
trap 'finish "failed at line $LINENO"' ERR
step() { echo "-- $*"; }
fail() {
    echo "FAILED: $*"
    node-goblin status || true
    finish "failed: $*"
    exit 1
}
wait_for() { # WHAT COMMAND…
    local what=$1
    shift
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    fail "$what: never came"
}
standing() { node-goblin status --json | grep -q "\"standing\": \"$1\""; }
property() { systemctl show -P "$1" $UNIT; }
ask() { # WORD: has the other side do something, and waits until it has
    rm -f "/exchange/done-$1"
    echo x >"/exchange/$1"
    wait_for "$1" test -e "/exchange/done-$1"
}

exec >/exchange/log 2>&1

step "the Debian package, on systemd $(systemctl --version | head -n 1)"
dpkg -i /packages/*.deb
[ "$(property ActiveState)" = inactive ] || fail "the installer started the service"
systemd-analyze verify --man=no /usr/lib/systemd/system/$UNIT

step "configure, connect"
# Line ends of another system and spaces at the end are no obstacle to systemd either.
sed -i 's/$/  \r/' /etc/burrow-host-gateway/gateway.env
node-goblin configure "127.0.0.1:$port" host-1
printf 'BURROW_GATEWAY_MAX_OPERATIONS=7   \r\n' >>/etc/burrow-host-gateway/gateway.env
node-goblin connect | tee /exchange/connect.txt
grep -q '^pairing code: ' /exchange/connect.txt || fail "no code"
[ "$(property ActiveState) $(property Type) $(property UnitFileState)" = "active notify enabled" ] || fail "the unit"
case $(property StatusText) in "Waiting for approval"*) ;; *) fail "status line: $(property StatusText)" ;; esac
standing waiting || fail "status"
node-goblin status | tee /exchange/status-waiting.txt
node-goblin pairing-code >/exchange/code.new
mv /exchange/code.new /exchange/code
step "approval"
touch /exchange/known
wait_for "the connection" standing connected
case $(property StatusText) in "Connected to 127.0.0.1:$port") ;; *) fail "status line: $(property StatusText)" ;; esac
node-goblin status | tee /exchange/status-connected.txt

step "a command inside the service"
ask command
grep -q 'NoNewPrivs:.1' /exchange/answer || fail "NoNewPrivs: $(cat /exchange/answer)"
grep -q 'CapBnd:.0000000000000000' /exchange/answer || fail "capabilities: $(cat /exchange/answer)"
grep -q 'uid=4226(burrow) gid=4226(burrow)' /exchange/answer || fail "account: $(cat /exchange/answer)"
grep -q 'umask=0077' /exchange/answer || fail "umask: $(cat /exchange/answer)"
grep -q 'private=none' /exchange/answer || fail "private variables: $(cat /exchange/answer)"
grep -q 'unshared=yes' /exchange/answer || echo "   (no user namespaces here: $(cat /exchange/answer))"
grep -q 'setgid=yes' /exchange/answer || fail "chmod g+s: $(cat /exchange/answer)"

step "doctor"
node-goblin doctor | tee /exchange/doctor.txt || true
node-goblin doctor --json | grep -q '"check": "tls"' || fail "doctor"
grep -q 'it is the pinned one' /exchange/doctor.txt || fail "doctor: the pin"

step "logs have priorities"
journalctl -u $UNIT -o json --no-pager | grep -q '"PRIORITY":"6"' || fail "no priority 6 in the journal"
journalctl -u $UNIT -o cat --no-pager | grep -q '^<' && fail "a priority was left in the text"

step "kill -9: systemd brings it back, and nobody is asked again"
before=$(property MainPID)
kill -9 "$before"
wait_for "a new process" bash -c "[ \$(systemctl show -P MainPID $UNIT) != 0 ] && [ \$(systemctl show -P MainPID $UNIT) != $before ]"
wait_for "the connection" standing connected

step "a daemon that hangs is noticed by the watchdog"
mkdir -p /run/systemd/system/$UNIT.d
printf '[Service]\nWatchdogSec=2\n' >/run/systemd/system/$UNIT.d/watchdog.conf
systemctl daemon-reload
systemctl restart $UNIT
wait_for "the connection" standing connected
before=$(property MainPID)
sleep 3
[ "$(property MainPID)" = "$before" ] || fail "a healthy daemon was taken for dead"
kill -STOP "$before"
wait_for "the watchdog" bash -c "journalctl -u $UNIT --no-pager | grep -q 'Watchdog timeout'"
wait_for "the connection" standing connected
rm -r /run/systemd/system/$UNIT.d
systemctl daemon-reload

step "an upgrade in place leaves the daemon running"
before=$(property MainPID)
dpkg -i /packages/*.deb
[ "$(property MainPID)" = "$before" ] || fail "the upgrade restarted the service"
node-goblin connect
[ "$(property MainPID)" = "$before" ] || fail "connect restarted what was up to date"

step "a token reaches the daemon as a credential"
node-goblin unpair
[ "$(property ActiveState)" = inactive ] || fail "unpair left the service running"
rm $STATE/controller-enrollment-consumed
printf 'a token\n' >/etc/burrow-host-gateway/enrollment-token
chmod 600 /etc/burrow-host-gateway/enrollment-token
systemctl start $UNIT
# Without an authority the token is proven to nobody: the peer's self-signed certificate is refused.
wait_for "the refusal" bash -c "node-goblin status --json | grep -Eq 'tls_handshake_failed|tls_system_roots'"
rm /etc/burrow-host-gateway/enrollment-token
node-goblin unpair
rm /exchange/known
wait_for "a new code" bash -c "node-goblin connect | grep -q '^pairing code: '"

step "remove, purge"
dpkg -r burrow-host-gateway
[ "$(property LoadState)" = not-found ] || fail "the unit is still there"
pgrep -u burrow && fail "processes are left"
[ -e /etc/burrow-host-gateway/gateway.env ] && [ -e $STATE/node-identity.json ] || fail "configuration or state went"

step "the archive over what was kept"
mkdir -p /root/archive
tar xzf /packages/*.tar.gz -C /root/archive --strip-components=1
/root/archive/install.sh
hash -r
node-goblin connect
node-goblin pairing-code
node-goblin uninstall
[ "$(property LoadState)" = not-found ] || fail "the unit is still there"
pgrep -u burrow && fail "processes are left"
dpkg -i /packages/*.deb
dpkg -P burrow-host-gateway
[ ! -e $STATE ] && [ ! -e /etc/burrow-host-gateway ] || fail "the purge left something"

step "over a Node.js gateway that runs"
printf '#!/bin/sh\nexec sleep infinity\n' >/usr/local/bin/node
chmod 755 /usr/local/bin/node
mkdir -p /opt/burrow-host-gateway/gateway /etc/burrow-host-gateway
install -d -m 0700 -o burrow -g burrow $STATE
echo '{"entries":[]}' >$STATE/operations.json
chown burrow:burrow $STATE/operations.json
echo "// the older program" >/opt/burrow-host-gateway/gateway/cli.mjs
printf 'BURROW_GATEWAY_CONTROLLER_URL=tls://127.0.0.1:%s\nBURROW_GATEWAY_ID=host-1\n' "$port" >/etc/burrow-host-gateway/gateway.env
cat >/etc/systemd/system/$UNIT <<OLD
[Service]
User=burrow
Group=burrow
EnvironmentFile=/etc/burrow-host-gateway/gateway.env
ExecStart=/usr/local/bin/node /opt/burrow-host-gateway/gateway/cli.mjs
[Install]
WantedBy=multi-user.target
OLD
systemctl daemon-reload
systemctl enable --now $UNIT
before=$(property MainPID)
sha256sum /etc/burrow-host-gateway/gateway.env >/root/before
dpkg -i /packages/*.deb
hash -r
[ "$(property MainPID)" = "$before" ] || fail "the upgrade ended what ran"
node-goblin connect | grep -q '^pairing code: ' || fail "no code"
[ "$(readlink "/proc/$(property MainPID)/exe")" = /opt/burrow-host-gateway/node-goblin ] || fail "connect did not change over"
[ "$(property FragmentPath)" = /usr/lib/systemd/system/$UNIT ] || [ "$(property FragmentPath)" = /lib/systemd/system/$UNIT ] || fail "the older unit hides ours"
[ -e /opt/burrow-host-gateway.nodejs/gateway/cli.mjs ] || fail "the older program is not aside"
sha256sum -c --quiet /root/before
systemctl is-enabled $UNIT
finish passed
