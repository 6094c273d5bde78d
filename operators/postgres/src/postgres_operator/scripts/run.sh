#!/bin/bash
# The first process of every instance: prepares its volume, then becomes the server.
#
# The primary makes a new database cluster where there is none, and sets the passwords of the Secret
# at every start. The other instances copy the primary and follow it. What takes several steps is
# done beside the data and renamed at its end, so that a kill at any moment leaves either nothing or
# all of it.
set -Eeuo pipefail
umask 077

data=$PGDATA
primary=$(</topology/primary)
host=$primary.$PEERS
slot=${HOSTNAME//-/_}
passfile=/run/postgresql/replication.pass

say() { printf 'kubewright: %s\n' "$*" >&2; }
secret() { printf %s "$(<"/secrets/$1")"; }

# Refuse for good: a restart would not help, and the log says what would.
refuse() {
    say "$@"
    printf '%s\n' "$*" > /dev/termination-log
    exit 78
}

write_passfile() {
    local password
    password=$(secret replication-password)
    password=${password//\\/\\\\}
    printf '*:*:*:replication:%s\n' "${password//:/\\:}" > "$passfile"
    export PGPASSFILE=$passfile
}

# The commands of replication need a connection of their own kind.
replication() {
    psql "host=$host user=replication replication=true connect_timeout=5" -XAtc "$1"
}

settings() {
    printf '%s\n' -c config_file=/config/postgresql.conf -c hba_file=/config/pg_hba.conf \
        -c "cluster_name=$HOSTNAME" -c "primary_slot_name=$slot" \
        -c "primary_conninfo=host=$host user=replication passfile=$passfile application_name=$HOSTNAME"
}

quote() { printf "'%s'" "${1//\'/\'\'}"; }

# One statement a line: the server that runs alone reads no further than that.
build_roles() {
    local role
    for role in replication backup "$DATABASE_OWNER"; do
        printf 'DO $$BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = %s) ' "$(quote "$role")"
        printf 'THEN CREATE ROLE "%s" LOGIN; END IF; END$$;\n' "$role"
    done
    printf 'ALTER ROLE replication REPLICATION;\nGRANT pg_read_all_data TO backup;\n'
    printf 'ALTER ROLE postgres PASSWORD %s;\n' "$(quote "$(secret postgres-password)")"
    printf 'ALTER ROLE replication PASSWORD %s;\n' "$(quote "$(secret replication-password)")"
    printf 'ALTER ROLE backup PASSWORD %s;\n' "$(quote "$(secret backup-password)")"
    printf 'ALTER ROLE "%s" PASSWORD %s;\n' "$DATABASE_OWNER" "$(quote "$(</app/password)")"
}

# The server alone, with no network: neither a client nor a probe takes it for the real one.
alone() {
    local messages
    mapfile -t options < <(settings)
    if ! messages=$(postgres --single -D "$data" "${options[@]}" -c log_statement=none postgres 2>&1) ||
        grep -q 'ERROR:\|FATAL:\|PANIC:' <<< "$messages"; then
        # Statements hold passwords: only what the server says of them is shown.
        grep 'ERROR:\|FATAL:\|PANIC:\|LOG:' <<< "$messages" >&2
        return 1
    fi
    printf '%s\n' "$messages"
}

set_up_database() {
    local found
    build_roles | alone > /dev/null
    found=$(printf 'SELECT datname FROM pg_database WHERE datname = %s;\n' "$(quote "$DATABASE_NAME")" | alone)
    if ! grep -q "datname = \"$DATABASE_NAME\"" <<< "$found"; then
        printf 'CREATE DATABASE "%s" OWNER "%s";\n' "$DATABASE_NAME" "$DATABASE_OWNER" | alone > /dev/null
    fi
}

make_cluster() {
    if [[ $(</topology/initialized) == true ]]; then
        refuse "the volume of the primary is empty, although this database held data: restore a" \
            "backup into a new Database, or give the volume back"
    fi
    say "making a new database cluster"
    rm -rf "$data.init"
    initdb -D "$data.init" --username=postgres --auth-local=peer --auth-host=scram-sha-256 \
        --data-checksums --encoding=UTF8 --locale=C.UTF-8 > /dev/null
    sync
    mv "$data.init" "$data"
}

run_primary() {
    rm -rf "$data.clone"
    [[ -s $data/PG_VERSION ]] || make_cluster
    check_version
    if [[ -e $data/standby.signal ]]; then
        refuse "this instance holds a copy, and is named as the primary"
    fi
    set_up_database
}

check_version() {
    local found
    found=$(<"$data/PG_VERSION")
    if [[ $found != "$PG_MAJOR" ]]; then
        refuse "the data are of PostgreSQL $found, and this image is of PostgreSQL $PG_MAJOR:" \
            "restore a backup into a new Database"
    fi
}

# Tell whether what is here is no copy of the primary, or one that can no longer follow it.
is_useless_copy() {
    local theirs ours
    [[ -e $data/standby.signal ]] || return 0
    theirs=$(replication IDENTIFY_SYSTEM) || return 1 # it does not answer now, and will be waited for
    ours=$(pg_controldata -D "$data" | sed -n 's/^Database system identifier: *//p')
    [[ ${theirs%%|*} == "$ours" ]] || return 0
    [[ $(wal_status) != lost ]] || return 0
    return 1
}

wal_status() {
    PGPASSWORD=$(secret backup-password) psql "host=$host user=backup dbname=postgres connect_timeout=5" \
        -XAtc "SELECT wal_status FROM pg_replication_slots WHERE slot_name = '$slot'"
}

copy_primary() {
    say "copying $primary"
    rm -rf "$data.clone" "$data.init"
    until pg_basebackup -h "$host" -U replication -D "$data.clone" -X stream -c fast --no-password; do
        rm -rf "$data.clone"
        sleep 1
    done
    touch "$data.clone/standby.signal"
    sync
    rm -rf "$data"
    mv "$data.clone" "$data"
}

run_standby() {
    if [[ -s $data/PG_VERSION ]]; then
        check_version
        if is_useless_copy; then
            say "what is on the volume cannot follow $primary"
            copy_primary
        fi
    else
        copy_primary
    fi
    # The primary keeps for it what it has not received yet; it exists already after a restart.
    replication "CREATE_REPLICATION_SLOT $slot PHYSICAL RESERVE_WAL" > /dev/null 2>&1 || true
}

# A pod that was deleted by force may still be ending while its successor begins.
exec 9> "$(dirname "$data")/.lock"
flock --wait 120 9 || refuse "another process uses this volume"
# A server that was killed leaves its number behind, which is this process's own in a new pod. With
# the lock there is no other server.
rm -f "$data/postmaster.pid"
write_passfile
if [[ $HOSTNAME == "$primary" ]]; then run_primary; else run_standby; fi
mapfile -t options < <(settings)
exec postgres -D "$data" "${options[@]}"
