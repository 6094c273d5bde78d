#!/bin/bash
# The first process of every member of a cluster: prepares its volume, then becomes the server.
#
# The primary makes a data folder where there is none, and sets users and passwords at each start.
# The other members copy the primary by CLONE and follow it by GTID. A kill at any moment leaves either
# nothing or all of it: what is half done is made anew.
set -Eeuo pipefail
umask 077

root=/var/lib/mysql
data=$root/data
primary=$(</topology/primary)
host=$primary.$PEERS

say() { printf 'kubewright: %s\n' "$*" >&2; }
secret() { printf %s "$(<"/secrets/$1")"; }

refuse() {
    say "$@"
    printf '%s\n' "$*" > /dev/termination-log
    exit 78
}

quote() {
    local text=${1//\\/\\\\}
    printf "'%s'" "${text//\'/\\\'}"
}

user() {
    printf "CREATE USER IF NOT EXISTS %s@'%%';\n" "$1"
    printf "ALTER USER %s@'%%' IDENTIFIED BY %s;\n" "$1" "$(quote "$(secret "$2")")"
}

write_users() {
    printf 'ALTER USER root@localhost IDENTIFIED BY %s;\n' "$(quote "$(secret root-password)")"
    printf 'CREATE DATABASE IF NOT EXISTS `%s`;\n' "$DATABASE_NAME"
    user "$DATABASE_USER" password
    printf "GRANT ALL ON \`%s\`.* TO %s@'%%';\n" "${DATABASE_NAME//_/\\_}" "$DATABASE_USER"
    user backup backup-password
    printf "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES, PROCESS, RELOAD ON *.* TO backup@'%%';\n"
    user restore restore-password
    printf "GRANT ALL ON \`%s\`.* TO restore@'%%';\n" "${DATABASE_NAME//_/\\_}"
    printf "GRANT SET_ANY_DEFINER, ALLOW_NONEXISTENT_DEFINER, SYSTEM_VARIABLES_ADMIN ON *.* TO restore@'%%';\n"
    user replication replication-password
    printf "GRANT REPLICATION SLAVE, BACKUP_ADMIN ON *.* TO replication@'%%';\n"
}

# A member follows whom the operator names; it is told anew at each start.
write_source() {
    printf 'STOP REPLICA;\n'
    printf "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '%s', SOURCE_USER = 'replication', SOURCE_PASSWORD = %s, " \
        "$host" "$(quote "$(secret replication-password)")"
    printf 'SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 5, SOURCE_RETRY_COUNT = 0;\n'
    printf 'START REPLICA;\n'
}

options=(
    --no-defaults --socket=/run/mysqld/mysqld.sock --pid-file=/run/mysqld/mysqld.pid
    --secure-file-priv=NULL --mysqlx=OFF --skip-name-resolve --character-set-server=utf8mb4
    "--server-id=$((100 + ${HOSTNAME##*-}))" "--report-host=$HOSTNAME.$PEERS"
    --gtid-mode=ON --enforce-gtid-consistency=ON --log-replica-updates=ON --relay-log=relay
    --relay-log-recovery=ON --binlog-expire-logs-seconds=259200 --plugin-load-add=mysql_clone.so
)

make_data() {
    rm -rf "$1"
    mysqld --no-defaults --initialize-insecure --datadir="$1" --log-error-verbosity=1
}

# The server finishes a copy when it starts, in the folder in which it was made. So the copy is made
# in its final place, under a mark that says until its end that it is none.
copy_primary() {
    local server output
    say "copying $primary"
    touch "$root/copy-again"
    rm -rf "$data" /run/mysqld/mysqld.sock
    make_data "$data"
    mysqld "${options[@]}" --datadir="$data" --skip-networking \
        "--clone-valid-donor-list=$host:3306" --log-error-verbosity=1 &
    server=$!
    until mysqladmin --no-defaults --socket=/run/mysqld/mysqld.sock -u root ping > /dev/null 2>&1; do
        kill -0 "$server" 2> /dev/null || return 1
        sleep 0.2
    done
    # Nobody restarts the server from inside: it ends with 3707 when the copy is complete.
    output=$(printf "CLONE INSTANCE FROM 'replication'@'%s':3306 IDENTIFIED BY %s REQUIRE SSL;\n" \
        "$host" "$(quote "$(secret replication-password)")" |
        mysql --no-defaults --socket=/run/mysqld/mysqld.sock -u root 2>&1) || true
    kill "$server" 2> /dev/null || true
    wait "$server" || true
    if ! grep --quiet 'ERROR 3707' <<< "$output"; then
        grep --only-matching 'ERROR [0-9]*' <<< "$output" >&2 || true
        return 1
    fi
    sync
    rm -f "$root/copy-again"
}

run_primary() {
    if [[ ! -d $data/mysql ]]; then
        if [[ $(</topology/initialized) == true ]]; then
            refuse "the volume of the primary is empty, although this cluster held data: restore a" \
                "backup into a new MySQLCluster, or give the volume back"
        fi
        say "making a new data folder"
        make_data "$data.init"
        sync
        mv "$data.init" "$data"
    fi
    write_users > /run/mysqld/start.sql
}

run_replica() {
    if [[ ! -d $data/mysql || -e $root/copy-again ]]; then
        until copy_primary; do sleep 2; done
    fi
    write_source > /run/mysqld/start.sql
    options+=(--super-read-only=ON --skip-replica-start=ON)
}

printf '[client]\nuser=backup\npassword="%s"\nhost=127.0.0.1\n' "$(secret backup-password)" > /run/mysqld/probe.cnf
if [[ $HOSTNAME == "$primary" ]]; then run_primary; else run_replica; fi
exec mysqld "${options[@]}" --datadir="$data" --bind-address=0.0.0.0 --init-file=/run/mysqld/start.sql
