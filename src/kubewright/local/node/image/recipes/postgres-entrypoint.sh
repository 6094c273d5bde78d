#!/bin/bash
# Entry point of postgres images: makes a database on an empty PGDATA, then runs the server.
# POSTGRES_PASSWORD, POSTGRES_USER, POSTGRES_DB, POSTGRES_INITDB_ARGS, POSTGRES_HOST_AUTH_METHOD may
# also be given as a file (NAME_FILE). Any command but the server's is executed as it is.
set -Eeuo pipefail
shopt -s nullglob

die() {
    printf '%s\n' "$@" >&2
    exit 1
}

# Take a setting from its variable, from the file that NAME_FILE names, or from a default.
take() {
    local name=$1 default=$2 file_name=$1_FILE
    local file=${!file_name:-}
    if [[ -n ${!name:-} && -n $file ]]; then
        die "error: both $name and $file_name are set (but are exclusive)"
    fi
    local value=${!name:-$default}
    [[ -z $file ]] || value=$(<"$file")
    printf -v "$name" %s "$value"
    export "${name?}"
    unset "$file_name"
}

# Give what root owns to the server's user, and go on as that user.
step_down() {
    local folder
    for folder in "$PGDATA" ${POSTGRES_INITDB_WALDIR:+"$POSTGRES_INITDB_WALDIR"}; do
        mkdir -p "$folder"
        chmod 0700 "$folder" || true
        find "$folder" ! -user postgres -exec chown postgres {} +
    done
    mkdir -p /var/run/postgresql
    chmod 3775 /var/run/postgresql || true
    chown postgres /var/run/postgresql || true
    exec gosu postgres "$BASH_SOURCE" "$@"
}

# initdb wants a name for the user it runs as; a pod may run as any number.
name_user() {
    local library
    getent passwd "$(id -u)" >/dev/null && return
    for library in /usr/lib/*/libnss_wrapper.so; do
        NSS_WRAPPER_PASSWD=$(mktemp)
        NSS_WRAPPER_GROUP=$(mktemp)
        export LD_PRELOAD=$library NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP
        echo "postgres:x:$(id -u):$(id -g):PostgreSQL:$PGDATA:/bin/false" >"$NSS_WRAPPER_PASSWD"
        echo "postgres:x:$(id -g):" >"$NSS_WRAPPER_GROUP"
        return
    done
}

forget_user() {
    [[ -n ${NSS_WRAPPER_PASSWD:-} ]] || return 0
    rm -f "$NSS_WRAPPER_PASSWD" "$NSS_WRAPPER_GROUP"
    unset LD_PRELOAD NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP
}

make_cluster() {
    local arguments=()
    name_user
    [[ -z ${POSTGRES_INITDB_WALDIR:-} ]] || arguments+=("--waldir=$POSTGRES_INITDB_WALDIR")
    # The arguments are a line of shell words, by contract.
    eval "arguments+=($POSTGRES_INITDB_ARGS)"
    initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") \
        ${arguments[@]+"${arguments[@]}"}
    forget_user
    local method=${POSTGRES_HOST_AUTH_METHOD:-$(postgres -C password_encryption)}
    [[ $method != md5 && $method != scram-sha-256 && $method != trust ]] ||
        [[ $method != trust ]] ||
        echo '# warning: every connection is trusted' >>"$PGDATA/pg_hba.conf"
    printf '\nhost all all all %s\n' "$method" >>"$PGDATA/pg_hba.conf"
}

sql() {
    psql -v ON_ERROR_STOP=1 --no-psqlrc --no-password --username "$POSTGRES_USER" "$@"
}

run_script() {
    local file=$1
    echo "$0: running $file"
    case $file in
        *.sh)
            # One that may not be executed is sourced: it sees the settings.
            if [[ -x $file ]]; then "$file"; else . "$file"; fi
            ;;
        *.sql) sql --dbname "$POSTGRES_DB" -f "$file" ;;
        *.sql.gz) gunzip -c "$file" | sql --dbname "$POSTGRES_DB" ;;
        *.sql.xz) xzcat "$file" | sql --dbname "$POSTGRES_DB" ;;
        *.sql.zst) zstd -dc "$file" | sql --dbname "$POSTGRES_DB" ;;
        *) echo "$0: ignoring $file" ;;
    esac
}

# Fill the new cluster through a server that only listens on its own socket.
fill_cluster() {
    local options file
    options=$(printf '%q ' "$@" -c listen_addresses= -p "${PGPORT:-5432}")
    export PGPASSWORD=$POSTGRES_PASSWORD
    unset PGHOST PGHOSTADDR
    NOTIFY_SOCKET='' PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -o "$options" -w start
    local found="SELECT 1 FROM pg_database WHERE datname = :'db'"
    if [[ -z $(sql --dbname postgres --tuples-only --set db="$POSTGRES_DB" <<<"$found") ]]; then
        sql --dbname postgres --set db="$POSTGRES_DB" <<<'CREATE DATABASE :"db";'
    fi
    for file in /docker-entrypoint-initdb.d/*; do
        run_script "$file"
    done
    PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -m fast -w stop
    unset PGPASSWORD
    printf '\n%s\n\n' 'PostgreSQL init process complete; ready for start up.'
}

initialize() {
    take POSTGRES_PASSWORD ''
    take POSTGRES_USER postgres
    take POSTGRES_DB "$POSTGRES_USER"
    take POSTGRES_INITDB_ARGS ''
    : "${POSTGRES_HOST_AUTH_METHOD:=}"
    mkdir -p "$PGDATA"
    chmod 0700 "$PGDATA" || true
    if [[ -s $PGDATA/PG_VERSION ]]; then
        printf '\n%s\n\n' \
            'PostgreSQL Database directory appears to contain a database; Skipping initialization'
        return
    fi
    if [[ -z $POSTGRES_PASSWORD && $POSTGRES_HOST_AUTH_METHOD != trust ]]; then
        die 'Error: Database is uninitialized and superuser password is not specified.' \
            '       Set POSTGRES_PASSWORD to a value that is not empty, or' \
            '       POSTGRES_HOST_AUTH_METHOD=trust to let everybody in.'
    fi
    make_cluster
    fill_cluster "$@"
}

# Tell whether the server is only asked for a text.
is_question() {
    local word
    for word; do
        case $word in
            -'?' | --help | --describe-config | -V | --version) return 0 ;;
        esac
    done
    return 1
}

main() {
    [[ ${1:-} != -* ]] || set -- postgres "$@"
    if [[ ${1:-} == postgres ]] && ! is_question "$@"; then
        [[ $(id -u) != 0 ]] || step_down "$@"
        initialize "${@:2}"
    fi
    exec "$@"
}

main "$@"
