#!/bin/sh
# Before removal (dpkg: `remove`, rpm: 0), not before an upgrade: services end, and the links that
# enabled them go. Users' own timers and all state stay.
units="manyway-recv.service manyway-relay.service manyway-registry.service"
case $1 in
remove | 0)
    [ ! -d /run/systemd/system ] || systemctl stop $units || true
    ! command -v systemctl >/dev/null || systemctl --quiet disable $units || true
    ;;
esac
