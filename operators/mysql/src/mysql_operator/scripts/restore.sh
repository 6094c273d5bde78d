#!/bin/bash
# Put the database back to what a backup holds: the newest, or the one that BACKUP names; UID/NAME
# names one of a former database of this name. Tables that the backup does not hold stay.
set -Eeuo pipefail
umask 077

fail() {
    printf 'restore failed: %s\n' "$*" | tee /dev/termination-log >&2
    exit 1
}
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR

folder=/backups/$DATABASE_UID
backup=${BACKUP:-latest}
if [[ $backup == latest ]]; then
    backup=$(cd "$folder" && find . -mindepth 2 -maxdepth 2 -name manifest.json -printf '%h\n' | sort | tail -n 1)
    backup=${backup#./}
fi
if [[ $backup == */* ]]; then
    folder=/backups/${backup%%/*}
    backup=${backup#*/}
fi
[[ -n $backup && -s $folder/$backup/manifest.json ]] || fail "there is no backup '$backup' in $folder"
(cd "$folder/$backup" && sha256sum --check --quiet checksums)

printf '[client]\nuser=restore\npassword="%s"\nhost=%s\n' "$(<"/secrets/restore-password")" "$DATABASE_HOST" > /tmp/my.cnf
gzip --decompress --stdout "$folder/$backup/dump.sql.gz" | mysql --defaults-file=/tmp/my.cnf "$DATABASE_NAME"
printf 'restored %s\n' "$backup" | tee /dev/termination-log >&2
