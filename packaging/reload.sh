#!/bin/sh
# After installation and upgrades: systemd learns of the units. Nothing is started.
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
