#!/usr/bin/env bash
# zram.sh SIZE | --off: swap to compressed memory of this machine, for many waiting agents (sandbox.swap). As root.
#
#   deploy/zram.sh 60G      a zram device that holds 60 GiB before compression, as the first choice for swap
#   deploy/zram.sh --off    reads back what is swapped out, and removes the device that this script made
#
# SIZE is the size before compression; the device takes a third to a quarter of it in memory. ZRAM_ALGORITHM names the compression; default: lz4,
# else zstd, else the kernel's default.
set -euo pipefail
state=/run/rolloutd-zram # names the device

off() {
  local device
  device=$(cat "$state")
  if grep -q "^$device " /proc/swaps; then swapoff "$device"; fi
  echo 1 >"/sys/block/${device#/dev/}/reset"
  rm "$state"
}

# find_device prints an unused zram device. Loading the module makes one; reading hot_add makes further ones.
find_device() {
  local sys number
  [ -e /sys/class/zram-control ] || modprobe zram
  for sys in /sys/block/zram*; do
    if [ -e "$sys/disksize" ] && [ "$(cat "$sys/disksize")" = 0 ]; then
      echo "/dev/${sys##*/}"
      return
    fi
  done
  number=$(cat /sys/class/zram-control/hot_add)
  echo "/dev/zram$number"
}

choose_algorithm() {
  local sys=$1 name
  for name in ${ZRAM_ALGORITHM:-lz4 zstd}; do
    if grep -qw "$name" "$sys/comp_algorithm"; then
      echo "$name" >"$sys/comp_algorithm"
      return
    fi
  done
  [ -z "${ZRAM_ALGORITHM:-}" ] || { echo "zram.sh: this kernel has no $ZRAM_ALGORITHM: $(cat "$sys/comp_algorithm")" >&2; exit 1; }
}

on() {
  local device sys
  [ ! -e "$state" ] || { echo "zram.sh: $(cat "$state") is in use; $0 --off removes it" >&2; exit 1; }
  device=$(find_device)
  sys=/sys/block/${device#/dev/}
  choose_algorithm "$sys"
  echo "$1" >"$sys/disksize"
  echo "$device" >"$state"
  mkswap "$device" >/dev/null
  swapon --priority 100 "$device"
}

[ "$(id -u)" = 0 ] || { echo "zram.sh: needs root" >&2; exit 1; }
case ${1:-} in
  --off) [ ! -e "$state" ] || off ;;
  [0-9]*[KMG]) on "$1" ;;
  *) echo "usage: $0 SIZE | --off; SIZE is a number with K, M or G" >&2; exit 2 ;;
esac
