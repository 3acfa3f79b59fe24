#!/usr/bin/env bash
# fuzz.sh [DURATION]: runs every fuzz test for DURATION each, 5s by default. It stops at the first failure; Go then stores the input below
# testdata/fuzz of the package, where `go test` tries it from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-5s}

mapfile -t packages < <(grep -rl --include='*_test.go' '^func Fuzz' --exclude-dir=rolloutd-dev . | xargs -n1 dirname | sort -u)
for package in "${packages[@]}"; do
  for name in $(go test -list '^Fuzz' "$package" | grep '^Fuzz'); do
    echo "$package $name"
    go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 5s | grep -v '^fuzz: elapsed'
  done
done
