#!/bin/bash
# Entry point of mysql and mariadb images: makes a database in an empty data folder, then runs the
# server. Settings are MYSQL_NAME, for mariadb also MARIADB_NAME, or a file that NAME_FILE names.
# Any command but the server's is executed as it is.
set -Eeuo pipefail
shopt -s nullglob

if command -v mariadbd >/dev/null; then
    SERVER=mariadbd CLIENT=mariadb PRODUCT=MariaDB PREFIXES=(MARIADB MYSQL)
else
    SERVER=mysqld CLIENT=mysql PRODUCT=MySQL PREFIXES=(MYSQL)
fi
START_SECONDS=120

say() {
    printf '%s [%s] [Entrypoint]: %s\n' "$(date --rfc-3339=seconds)" "$1" "${*:2}"
}

die() {
    say ERROR "$@" >&2
    exit 1
}

# Take a setting: the first prefix that has it, as text or as a file. All prefixes show it to
# scripts, as the images do.
take() {
    local name=$1 value='' prefix file_name text
    for prefix in "${PREFIXES[@]}"; do
        text=${prefix}_$name file_name=${prefix}_${name}_FILE
        if [[ -n ${!text:-} && -n ${!file_name:-} ]]; then
            die "Both $text and $file_name are set (but are exclusive)"
        fi
        [[ -n $value ]] || value=${!text:-}
        [[ -n $value || -z ${!file_name:-} ]] || value=$(<"${!file_name}")
        unset "$file_name"
    done
    printf -v "$name" %s "$value"
    [[ -n $value ]] || return 0
    for prefix in "${PREFIXES[@]}"; do
        export "${prefix}_$name=$value"
    done
}

# Ask the server for a setting as its command line and its files make it.
ask_server() {
    local name=$1 output
    output=$("${@:2}" --verbose --help 2>/dev/null) || die "The server refuses its options: ${*:2}"
    sed -n "s/^$name[[:space:]]\{1,\}//p" <<<"$output"
}

step_down() {
    local folder
    for folder in "$DATA_FOLDER" "$(dirname "$SOCKET")"; do
        mkdir -p "$folder"
        find "$folder" ! -user mysql -exec chown mysql: {} +
    done
    exec gosu mysql "$BASH_SOURCE" "$@"
}

quote() {
    local text=${1//\\/\\\\}
    printf "'%s'" "${text//\'/\\\'}"
}

quote_name() {
    printf '`%s`' "${1//\`/\`\`}"
}

# Run SQL from standard input as root. Scripts call it by this name.
docker_process_sql() {
    local arguments=(--no-defaults --protocol=socket --user=root --host=localhost
        "--socket=$SOCKET" --comments --database="${USED_DATABASE:-mysql}")
    MYSQL_PWD=${USED_PASSWORD:-} "$CLIENT" "${arguments[@]}" "$@"
}

start_server() {
    "$@" --skip-networking --default-time-zone=SYSTEM --socket="$SOCKET" --loose-wsrep-on=OFF \
        --loose-mysqlx=OFF --loose-innodb-buffer-pool-load-at-startup=0 &
    SERVER_PID=$!
    local until=$((SECONDS + START_SECONDS))
    while ! docker_process_sql <<<'SELECT 1' >/dev/null 2>&1; do
        kill -0 "$SERVER_PID" 2>/dev/null || die 'The server ended while it was set up.'
        ((SECONDS < until)) || die "The server does not answer within $START_SECONDS s."
        sleep 0.2
    done
}

stop_server() {
    kill "$SERVER_PID"
    wait "$SERVER_PID" || die 'The server did not end well after it was set up.'
}

install_database() {
    mkdir -p "$DATA_FOLDER"
    if [[ $SERVER == mysqld ]]; then
        "$@" --initialize-insecure --default-time-zone=SYSTEM
        return
    fi
    mariadb-install-db --datadir="$DATA_FOLDER" --rpm --auth-root-authentication-method=normal \
        --skip-test-db --skip-log-bin "${@:2}"
}

load_time_zones() {
    [[ -z $INITDB_SKIP_TZINFO ]] || return 0
    local program=mysql_tzinfo_to_sql
    ! command -v mariadb-tzinfo-to-sql >/dev/null || program=mariadb-tzinfo-to-sql
    # The text stands for a time zone's name where a file is none.
    "$program" /usr/share/zoneinfo 2>/dev/null |
        sed 's/Local time zone must be set--see zic manual page/FCTY/' |
        docker_process_sql
}

# Print the statements that make the accounts and the database.
build_accounts() {
    local secret user host
    secret="IDENTIFIED BY $(quote "$ROOT_PASSWORD")"
    [[ -z $ROOT_PASSWORD_HASH ]] || secret="IDENTIFIED BY PASSWORD $(quote "$ROOT_PASSWORD_HASH")"
    echo 'SET @@SESSION.SQL_LOG_BIN=0;'
    echo "SET @@SESSION.SQL_MODE=REPLACE(@@SESSION.SQL_MODE, 'NO_BACKSLASH_ESCAPES', '');"
    echo "DROP USER IF EXISTS ''@'localhost';"
    if [[ -n $ROOT_HOST && $ROOT_HOST != localhost ]]; then
        host="root@$(quote "$ROOT_HOST")"
        echo "CREATE USER $host $secret;"
        echo "GRANT ALL ON *.* TO $host WITH GRANT OPTION;"
    fi
    if [[ -n $USER_NAME && -n $PASSWORD$PASSWORD_HASH ]]; then
        user="$(quote "$USER_NAME")@'%'"
        local own="IDENTIFIED BY $(quote "$PASSWORD")"
        [[ -z $PASSWORD_HASH ]] || own="IDENTIFIED BY PASSWORD $(quote "$PASSWORD_HASH")"
        echo "CREATE USER $user $own;"
    fi
    if [[ -n $DATABASE ]]; then
        echo "CREATE DATABASE IF NOT EXISTS $(quote_name "$DATABASE");"
        # In a grant an underscore would stand for any character.
        [[ -z ${user:-} ]] || echo "GRANT ALL ON $(quote_name "${DATABASE//_/\\_}").* TO $user;"
    fi
    [[ $SERVER == mysqld ]] || build_for_mariadb
    echo "ALTER USER root@localhost $secret;"
    [[ -z $ONETIME_PASSWORD || -z ${host:-} ]] || echo "ALTER USER $host PASSWORD EXPIRE;"
    echo 'FLUSH PRIVILEGES;'
}

build_for_mariadb() {
    # Its installation makes these, and nobody gave them a password.
    echo "DROP USER IF EXISTS root@'127.0.0.1', root@'::1';"
    echo "EXECUTE IMMEDIATE CONCAT('DROP USER IF EXISTS root@', QUOTE(@@hostname));"
    build_healthcheck
}

# Print the statements for healthcheck.sh's own account, and write its password beside the data.
build_healthcheck() {
    local password host file=$DATA_FOLDER/.my-healthcheck.cnf
    password=$(random_password)
    for host in 127.0.0.1 ::1 localhost; do
        echo "CREATE USER healthcheck@'$host' IDENTIFIED BY '$password';"
        echo "GRANT USAGE ON *.* TO healthcheck@'$host';"
    done
    (
        umask 0077
        printf '[mariadb-client]\nport=%s\nsocket=%s\nuser=healthcheck\npassword=%s\n' \
            "$PORT" "$SOCKET" "$password" >"$file"
    )
}

random_password() {
    head -c 24 /dev/urandom | base64 | tr '+/' '-_'
}

run_script() {
    local file=$1
    say Note "running $file"
    case $file in
        *.sh)
            # One that may not be executed is sourced: it sees the settings and docker_process_sql.
            if [[ -x $file ]]; then "$file"; else . "$file"; fi
            ;;
        *.sql) docker_process_sql <"$file" ;;
        *.sql.gz) gunzip -c "$file" | docker_process_sql ;;
        *.sql.xz) xzcat "$file" | docker_process_sql ;;
        *.sql.zst) zstd -dc "$file" | docker_process_sql ;;
        *) say Warn "ignoring $file" ;;
    esac
}

check_settings() {
    if [[ -n $RANDOM_ROOT_PASSWORD ]]; then
        ROOT_PASSWORD=$(random_password)
        say Note "GENERATED ROOT PASSWORD: $ROOT_PASSWORD"
    fi
    if [[ -z $ROOT_PASSWORD$ROOT_PASSWORD_HASH$ALLOW_EMPTY_ROOT_PASSWORD ]]; then
        local names
        names=$(printf "${PREFIXES[0]}_%s, " ROOT_PASSWORD RANDOM_ROOT_PASSWORD)
        die 'Database is uninitialized and password option is not specified.' \
            "Set one of ${names}${PREFIXES[0]}_ALLOW_EMPTY_ROOT_PASSWORD"
    fi
    [[ $USER_NAME != root ]] || die "${PREFIXES[0]}_USER cannot be root, who is there already"
}

initialize() {
    local file
    check_settings
    say Note "Initializing database files"
    install_database "$@"
    say Note "Starting temporary server"
    start_server "$@"
    load_time_zones
    build_accounts | docker_process_sql
    USED_PASSWORD=$ROOT_PASSWORD USED_DATABASE=${DATABASE:-mysql}
    for file in /docker-entrypoint-initdb.d/*; do
        run_script "$file"
    done
    say Note "Stopping temporary server"
    stop_server
    unset USED_PASSWORD USED_DATABASE
    say Note "$PRODUCT init process done. Ready for start up."
}

upgrade() {
    mariadb-upgrade --check-if-upgrade-is-needed --silent --datadir="$DATA_FOLDER" 2>/dev/null ||
        return 0
    say Note "Starting temporary server to upgrade the system's tables"
    start_server "$@" --skip-grant-tables
    mariadb-upgrade --socket="$SOCKET" --upgrade-system-tables
    stop_server
}

read_settings() {
    local name
    for name in ROOT_PASSWORD ROOT_PASSWORD_HASH ROOT_HOST DATABASE PASSWORD PASSWORD_HASH \
        RANDOM_ROOT_PASSWORD ALLOW_EMPTY_ROOT_PASSWORD ALLOW_EMPTY_PASSWORD ONETIME_PASSWORD \
        INITDB_SKIP_TZINFO AUTO_UPGRADE; do
        take "$name"
    done
    # The shell has a variable of this name.
    local shell_user=${USER:-}
    take USER
    USER_NAME=$USER USER=$shell_user
    ROOT_HOST=${ROOT_HOST:-%}
    ALLOW_EMPTY_ROOT_PASSWORD=$ALLOW_EMPTY_ROOT_PASSWORD$ALLOW_EMPTY_PASSWORD
}

# Tell whether the server is only asked for a text.
is_question() {
    local word
    for word; do
        case $word in
            -'?' | --help | --print-defaults | -V | --version) return 0 ;;
        esac
    done
    return 1
}

main() {
    [[ ${1:-} != -* ]] || set -- "$SERVER" "$@"
    case ${1:-} in
        mysqld | mariadbd) ! is_question "$@" || exec "$@" ;;
        *) exec "$@" ;;
    esac
    DATA_FOLDER=$(ask_server datadir "$@")
    SOCKET=$(ask_server socket "$@")
    PORT=$(ask_server port "$@")
    [[ $(id -u) != 0 ]] || step_down "$@"
    read_settings
    if [[ ! -d $DATA_FOLDER/mysql ]]; then
        initialize "$@"
    elif [[ -n $AUTO_UPGRADE && $SERVER == mariadbd ]]; then
        upgrade "$@"
    fi
    exec "$@"
}

main "$@"
