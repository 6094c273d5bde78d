#!/bin/bash
# Put the database back to what a backup holds: the newest, or the one that BACKUP names; UID/NAME
# names one of a former database of this name.
# All of it or nothing: it is one transaction.
set -Eeuo pipefail

fail() {
    printf 'restore failed: %s\n' "$*" | tee /dev/termination-log >&2
    exit 1
}
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR

folder=/backups/$DATABASE_UID
name=${BACKUP:-latest}
if [[ $name == latest ]]; then
    name=$(cd "$folder" && find . -mindepth 2 -maxdepth 2 -name manifest.json -printf '%h\n' | sort | tail -n 1)
    name=${name#./}
fi
if [[ $name == */* ]]; then
    folder=/backups/${name%%/*}
    name=${name#*/}
fi
[[ -n $name && -s $folder/$name/manifest.json ]] || fail "there is no backup '$name' in $folder"
(cd "$folder/$name" && sha256sum --check --quiet checksums)

umask 077
password=$(</secrets/postgres-password)
password=${password//\\/\\\\}
printf '*:*:*:postgres:%s\n' "${password//:/\\:}" > /tmp/pgpass
export PGPASSFILE=/tmp/pgpass PGHOST=$DATABASE_HOST PGCONNECT_TIMEOUT=10

pg_restore -U postgres --dbname="$DATABASE_NAME" --clean --if-exists --exit-on-error \
    --single-transaction --no-password "$folder/$name/$DATABASE_NAME.dump"
psql -U postgres -d "$DATABASE_NAME" -Xqc ANALYZE
printf 'restored %s\n' "$name" | tee /dev/termination-log >&2
