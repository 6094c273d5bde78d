#!/bin/bash
# The liveness of a member: it answers, and a copy can still follow. One that cannot, since the
# primary no longer has what it has not received, is copied anew when it has ended.
set -Eeuo pipefail

ask() { mysql --defaults-file=/run/mysqld/probe.cnf -NBe "$1"; }

ask 'SELECT 1' > /dev/null
[[ $HOSTNAME != "$(</topology/primary)" ]] || exit 0
error=$(ask 'SELECT LAST_ERROR_NUMBER FROM performance_schema.replication_connection_status') || exit 0
if [[ $error == 13114 ]]; then
    touch /var/lib/mysql/copy-again
    echo "the primary no longer has what this copy has not received: it is copied anew"
    exit 1
fi
