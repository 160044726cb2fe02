# Shared by the installer and the Debian package's scripts: the service's account, and what an earlier Node.js
# installation left. ROOT is the staging root or empty. Refuses before anything has been changed.

ACCOUNT=burrow
NUMBER=4226
PROGRAM_DIR=/opt/burrow-host-gateway
ASIDE_DIR=/opt/burrow-host-gateway.nodejs

fail() {
    echo "burrow-host-gateway: $*" >&2
    exit 1
}

# Prints the line of a name or number in passwd or group.
database_line() {
    if [ -z "$ROOT" ] && command -v getent >/dev/null; then
        getent "$1" "$2" || true
    elif [ -f "$ROOT/etc/$1" ]; then
        awk -F: -v key="$2" '$1 == key || $3 == key { print; exit }' "$ROOT/etc/$1"
    fi
}

field() {
    printf '%s\n' "$1" | cut -d: -f"$2"
}

check_account() {
    user=$(database_line passwd "$ACCOUNT")
    group=$(database_line group "$ACCOUNT")
    if [ -n "$user" ]; then
        { [ -n "$group" ] && [ "$(field "$user" 4)" = "$(field "$group" 3)" ]; } ||
            fail "the user $ACCOUNT exists and its primary group is not $ACCOUNT; change that (usermod --gid $ACCOUNT $ACCOUNT) or remove the user"
        return 0
    fi
    other=$(database_line passwd "$NUMBER")
    [ -z "$other" ] ||
        fail "UID $NUMBER belongs to $(field "$other" 1). Make the account with another number, then install again: groupadd --system $ACCOUNT && useradd --system --gid $ACCOUNT --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin $ACCOUNT"
    if [ -z "$group" ]; then
        other=$(database_line group "$NUMBER")
        [ -z "$other" ] ||
            fail "GID $NUMBER belongs to $(field "$other" 1). Make the group with another number, then install again: groupadd --system $ACCOUNT"
    fi
}

# Runs a command of the shadow tools on the root. In a staging root only root may do so, and only where there are accounts.
shadow() {
    tool=$1
    shift
    command -v "$tool" >/dev/null || fail "$tool is missing: install the shadow tools (passwd)"
    if [ -n "$ROOT" ]; then
        "$tool" --prefix "$ROOT" "$@"
    else
        "$tool" "$@"
    fi
}

make_account() {
    if [ -n "$ROOT" ] && { [ "$(id -u)" -ne 0 ] || [ ! -f "$ROOT/etc/passwd" ]; }; then
        echo "staging root: the account $ACCOUNT is left to whoever uses it"
        return 0
    fi
    if [ -z "$(database_line group "$ACCOUNT")" ]; then
        shadow groupadd --system --gid "$NUMBER" "$ACCOUNT"
    fi
    if [ -z "$(database_line passwd "$ACCOUNT")" ]; then
        shadow useradd --system --key "SYS_UID_MAX=$NUMBER" --uid "$NUMBER" --gid "$ACCOUNT" --home-dir /nonexistent --no-create-home \
            --shell /usr/sbin/nologin --comment "Burrow host gateway" "$ACCOUNT"
    fi
}

# Gives a path to the account, by number, as the root's own files say; does nothing where that can't be done.
give() {
    [ "$(id -u)" -eq 0 ] || return 0
    user=$(database_line passwd "$ACCOUNT")
    [ -n "$user" ] || return 0
    case $1 in
        user) chown "$(field "$user" 3):$(field "$user" 4)" "$2" ;;
        group) chown "0:$(field "$user" 4)" "$2" ;;
    esac
}

# Configuration and state are made where they are missing and never touched where they are not.
make_configuration() {
    if [ ! -d "$ROOT/etc/burrow-host-gateway" ]; then
        mkdir -p "$ROOT/etc/burrow-host-gateway"
        chmod 0755 "$ROOT/etc/burrow-host-gateway"
    fi
    if [ ! -e "$ROOT/etc/burrow-host-gateway/gateway.env" ] && [ ! -L "$ROOT/etc/burrow-host-gateway/gateway.env" ]; then
        (umask 077 && cp "$1" "$ROOT/etc/burrow-host-gateway/gateway.env")
        give group "$ROOT/etc/burrow-host-gateway/gateway.env"
        chmod 0640 "$ROOT/etc/burrow-host-gateway/gateway.env"
    fi
    if [ ! -e "$ROOT/var/lib/burrow-host-gateway" ]; then
        mkdir -p "$ROOT/var/lib"
        mkdir -m 0700 "$ROOT/var/lib/burrow-host-gateway"
        give user "$ROOT/var/lib/burrow-host-gateway"
    fi
}

# True where an installation of the Node.js program lies in the program's directory.
is_nodejs() {
    [ -d "$ROOT$PROGRAM_DIR" ] && [ ! -L "$ROOT$PROGRAM_DIR" ] && [ ! -e "$ROOT$PROGRAM_DIR/node-goblin" ] &&
        [ -n "$(find "$ROOT$PROGRAM_DIR" -maxdepth 3 \( -name '*.mjs' -o -name '*.js' -o -name '*.cjs' -o -name package.json \) -print 2>/dev/null | head -n 1)" ]
}

# True for a unit that starts the Node.js program.
is_nodejs_unit() {
    [ -f "$1" ] && grep -Eq '^ExecStart=.*(/node |/nodejs |env node |\.[mc]?js( |$))' "$1"
}

# Moves the Node.js program, and its unit where that would hide ours, aside. What was moved earlier stays.
move_nodejs_aside() {
    aside=$ROOT$ASIDE_DIR
    unit=$ROOT/etc/systemd/system/burrow-host-gateway.service
    moved=
    if is_nodejs; then
        number=1
        while [ -e "$aside" ]; do
            number=$((number + 1))
            aside=$ROOT$ASIDE_DIR.$number
        done
        mv "$ROOT$PROGRAM_DIR" "$aside"
        moved=yes
        echo "the Node.js program was moved to ${aside#"$ROOT"}"
    fi
    # Whatever it starts, it started what has just been moved.
    if is_nodejs_unit "$unit" || { [ -n "$moved" ] && [ -f "$unit" ]; }; then
        mkdir -p "$aside"
        mv "$unit" "$aside/burrow-host-gateway.service"
        echo "its unit was moved to ${aside#"$ROOT"}/burrow-host-gateway.service"
    fi
}

# True where there is a service manager to speak to.
has_systemd() {
    [ -z "$ROOT" ] && { [ -n "${SYSTEMCTL:-}" ] || [ -d /run/systemd/system ]; }
}

reload_systemd() {
    if has_systemd; then
        "${SYSTEMCTL:-systemctl}" daemon-reload || true
    fi
}

# Says what comes next. The service is never started, nor restarted: a restart would end commands that run.
say_next() {
    [ -z "$ROOT" ] || return 0
    if has_systemd && "${SYSTEMCTL:-systemctl}" --quiet is-active burrow-host-gateway.service 2>/dev/null; then
        echo "the service still runs the earlier program; this changes over: node-goblin connect"
    elif grep -Eq '^BURROW_GATEWAY_CONTROLLER_URL=.' /etc/burrow-host-gateway/gateway.env 2>/dev/null; then
        echo "next: node-goblin connect"
    else
        echo "next: node-goblin configure HOST:PORT NODE_ID, then node-goblin connect"
    fi
}
