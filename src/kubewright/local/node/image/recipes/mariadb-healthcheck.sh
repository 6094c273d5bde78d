#!/bin/bash
# Tells whether the server does what the options ask for; the last one that fails decides.
#   healthcheck.sh --connect --innodb_initialized
set -uo pipefail

DATA_FOLDER=/var/lib/mysql
OPTIONS=()

sql() {
    local file=$DATA_FOLDER/.my-healthcheck.cnf
    [[ ! -r $file ]] || set -- "--defaults-extra-file=$file" "$@"
    mariadb ${OPTIONS[@]+"${OPTIONS[@]}"} "$@" --batch --skip-column-names
}

# A server that is being set up has no network: the way in is by TCP.
connect() {
    local answer
    answer=$(sql --protocol=tcp --host=localhost -e 'SELECT 1' 2>&1) && return 0
    # Whoever is refused has reached it.
    [[ $answer == *'ERROR 1045'* ]]
}

status_is() {
    [[ $(sql -e "SHOW GLOBAL STATUS LIKE '$1'" 2>/dev/null | cut -f2) == "$2" ]]
}

innodb_initialized() {
    local engines="SELECT COUNT(*) FROM information_schema.ENGINES"
    [[ $(sql -e "$engines WHERE engine = 'innodb' AND support IN ('YES', 'DEFAULT')") == 1 ]]
}

innodb_buffer_pool_loaded() {
    local value
    value=$(sql -e "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_load_status'" | cut -f2-)
    [[ $value == *completed* || $value == *aborted* || -z $value ]]
}

replica_says() {
    [[ $(sql -E -e 'SHOW REPLICA STATUS' | sed -n "s/^ *$1: //p") == "$2" ]]
}

replication_io() { replica_says Slave_IO_Running Yes; }
replication_sql() { replica_says Slave_SQL_Running Yes; }
replication() { replication_io && replication_sql; }
galera_online() { status_is wsrep_local_state 4; }
galera_ready() { status_is wsrep_ready ON; }

(($#)) || set -- --connect
for word; do
    case $word in
        --datadir=*) DATA_FOLDER=${word#*=} ;;
        --defaults-file=* | --defaults-extra-file=* | --defaults-group-suffix=*)
            OPTIONS+=("$word")
            ;;
        --su=* | --su-mysql | --no-connect) ;;
        --connect | --innodb_initialized | --innodb_buffer_pool_loaded | --replication \
            | --replication_io | --replication_sql | --galera_online | --galera_ready)
            "${word#--}" || {
                echo "healthcheck ${word#--} failed" >&2
                exit 1
            }
            ;;
        *)
            echo "healthcheck does not know $word" >&2
            exit 1
            ;;
    esac
done
