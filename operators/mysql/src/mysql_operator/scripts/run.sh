#!/bin/bash
# The first process of a server: makes its data folder where there is none, then becomes the server.
# The server itself sets users and passwords at each start, before it takes connections: --init-file.
set -Eeuo pipefail
umask 077

data=/var/lib/mysql/data

say() { printf 'kubewright: %s\n' "$*" >&2; }
secret() { printf %s "$(<"/secrets/$1")"; }

# A text of SQL: the server's default is that a backslash escapes.
quote() {
    local text=${1//\\/\\\\}
    printf "'%s'" "${text//\'/\\\'}"
}
name() { printf '`%s`' "${1//\`/\`\`}"; }

write_users() {
    local user
    user="$(quote "$DATABASE_USER")@'%'"
    printf 'ALTER USER root@localhost IDENTIFIED BY %s;\n' "$(quote "$(secret root-password)")"
    printf 'CREATE DATABASE IF NOT EXISTS %s;\n' "$(name "$DATABASE_NAME")"
    printf 'CREATE USER IF NOT EXISTS %s;\n' "$user"
    printf 'ALTER USER %s IDENTIFIED BY %s;\n' "$user" "$(quote "$(secret password)")"
    # In a grant, _ and % of a database's name stand for any text.
    local database=${DATABASE_NAME//_/\\_}
    printf 'GRANT ALL ON %s.* TO %s;\n' "$(name "${database//%/\\%}")" "$user"
    printf "CREATE USER IF NOT EXISTS backup@'%%';\n"
    printf "ALTER USER backup@'%%' IDENTIFIED BY %s;\n" "$(quote "$(secret backup-password)")"
    printf "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES, PROCESS, RELOAD ON *.* TO backup@'%%';\n"
    printf "CREATE USER IF NOT EXISTS restore@'%%';\n"
    printf "ALTER USER restore@'%%' IDENTIFIED BY %s;\n" "$(quote "$(secret restore-password)")"
    printf "GRANT ALL ON %s.* TO restore@'%%';\n" "$(name "${database//%/\\%}")"
    # What a dump holds may have another definer than who restores it.
    printf "GRANT SET_ANY_DEFINER, ALLOW_NONEXISTENT_DEFINER, SYSTEM_VARIABLES_ADMIN ON *.* TO restore@'%%';\n"
}

make_data() {
    say "making a new data folder"
    rm -rf "$data.init"
    mysqld --no-defaults --initialize-insecure --datadir="$data.init" --log-error-verbosity=1
    sync
    mv "$data.init" "$data"
}

[[ -d $data/mysql ]] || make_data
write_users > /run/mysqld/users.sql
printf '[client]\nuser=backup\npassword="%s"\nhost=127.0.0.1\n' "$(secret backup-password)" > /run/mysqld/probe.cnf
exec mysqld --no-defaults --datadir="$data" --init-file=/run/mysqld/users.sql \
    --socket=/run/mysqld/mysqld.sock --pid-file=/run/mysqld/mysqld.pid --secure-file-priv=NULL \
    --bind-address=0.0.0.0 --mysqlx=OFF --skip-name-resolve --character-set-server=utf8mb4 \
    --server-id=100 --binlog-expire-logs-seconds=86400
