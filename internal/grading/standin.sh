# Functions that take the place of programs in a test script that runs without any work. Where a program cannot run, for a
# reason that no work can change, its function notes the reason and succeeds. The script may bring files of the work to
# where its tests are ($__brings), names what it installs ($__installs), and may find programs in folders of the work, where
# the image has none yet ($__searches).

__notes=/verifier/logs/stand-ins
export ROLLOUTD_MISSING_MODULES=/verifier/logs/missing-modules

# __of_verifier: a word names a folder of the verifier's, or the program runs there.
__of_verifier() {
  local word
  for word in "$(pwd -P)" "$@"; do
    [[ $word =~ (^|=)(/verifier/tests|/verifier/logs|/tests|/logs/verifier)(/|$) ]] && return 0
  done
  return 1
}

# __module: the module that Python is given.
__module() {
  while (($# > 1)); do
    [[ $1 == -m ]] && { printf %s "$2"; return 0; }
    shift
  done
}

# __line: the first line that has what a pattern finds.
__line() {
  local line
  while IFS= read -r line; do
    [[ $line =~ $1 ]] && { printf %s "${line:0:300}"; return 0; }
  done <<< "$2"
  return 1
}

# __usage: the test runner does not know an option that the script gives it.
__usage() {
  local status=$1 err=$2 line word
  shift 2
  [[ ! $__brings ]] && ((status == 4)) && __of_verifier "$@" && line=$(__line 'error: unrecognized arguments: ' "$err") || return 1
  for word in "${@:2}"; do
    [[ $word == -* && ${line#*arguments: } == "$word"* ]] && { printf %s "$line"; return 0; }
  done
  return 1
}

# __lacks_module: an import failed that has no folder of the work to search.
__lacks_module() {
  local status=$1 out=$2 err=$3 found='ModuleNotFoundError: No module named .([A-Za-z0-9_]+)' line
  case "$4 $(__module "${@:5}")" in
    *pytest | py.test*) ((status == 2 || status == 4)) && line=$(__line "^E +$found" "$out"$'\n'"$err") ;;
    *unittest) line=$(__line "^$found" "$err") ;;
    *) line=$(__line "^$found" "${err##*$'\n'}") ;;
  esac || return 1
  [[ $line =~ $found && -r $ROLLOUTD_MISSING_MODULES ]] || return 1
  [[ ! $__brings || $__installs == *" ${BASH_REMATCH[1],,} "* ]] || return 1
  [[ $'\n'$(< "$ROLLOUTD_MISSING_MODULES")$'\n' == *$'\n'"${BASH_REMATCH[1]}"$'\n'* ]] && printf %s "${line#*Error: }"
}

# __names_work: a word is a path that is not the verifier's, or names one after pip's -r or -e.
__names_work() {
  local word
  for word in "$@"; do
    [[ $word == */* || $word == .* || $word =~ ^-[er](.*[.].*)?$ ]] && ! (cd / && __of_verifier "$word") && return 0
  done
  [[ ${PIP_FIND_LINKS-}${PIP_INDEX_URL-}${UV_FIND_LINKS-} ]]
}

# __lacks_network: a program cannot fetch what no work can bring, or uv takes a shim for a Python. PATH may have a folder
# of the work, and its Python is not meant.
__lacks_network() {
  local status=$1 err=$2 name=${3##*/} uv='Failed to fetch|Failed to download|[Cc]ould not connect|dns error|sending request|offline|Querying Python at `/opt/rolloutd/'
  shift 3
  __names_work "$@" && [[ $name != curl ]] && return 1
  case $name in
    uvx | pipx) __line "$uv" "$err" ;;
    pip*) __line 'No matching distribution found|externally-managed|new connection|name resolution|unreachable' "$err" ;;
    apt | apt-get) __line 'Temporary failure resolving|Could not resolve|Unable to locate package|Failed to fetch' "$err" ;;
    curl) ((status == 6)) && __line 'Could not resolve host' "$err" ;;
    uv) __of_verifier && __line "$uv" "$err" ;;
    npm | npx | pnpm | yarn) __of_verifier && __line '(npm error|npm ERR!|ERR_PNPM|error) .*(EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ENOTCACHED|ENETUNREACH)' "$err" ;;
    *) return 1 ;;
  esac
}

# __lacks_project: a build tool finds nothing to do in the verifier's own folder.
__lacks_project() {
  local err=$1 name=${2##*/}
  shift 2
  [[ ! $__brings ]] && __of_verifier || return 1
  case $name in
    npm | pnpm | yarn) __line 'Missing script|Could not read package.json|package.json was not found' "$err" ;;
    go) __line 'go.mod file not found|cannot find main module|no Go files in' "$err" ;;
    cargo) __line 'could not find .Cargo.toml.' "$err" ;;
    make) __line "No targets specified|No rule to make target .[^/']+'\.  Stop" "$err" ;;
    *) return 1 ;;
  esac
}

# __interpreter: the program that runs a file of the tests, by its first line.
__interpreter() {
  local line=
  [[ $1 == */* ]] && __of_verifier "$1" && IFS= read -r line < "$1" || [[ $line ]] || return 1
  [[ $line =~ ^#![[:blank:]]*([^[:blank:]]*/env[[:blank:]]+(-S[[:blank:]]+)?)?([^[:blank:]]+) ]] && printf %s "${BASH_REMATCH[3]}"
}

# __missing: the program, what interprets it, or the module by which Python runs tests, does not exist.
__missing() {
  local module interpreter
  interpreter=$(__interpreter "$1") && ! type -P "$interpreter" > /dev/null &&
    { printf '%s is not in the image, which %s needs' "$interpreter" "$1"; return 0; }
  type -P "$1" > /dev/null || { printf '%s is not in the image' "$1"; return 0; }
  [[ ${1##*/} == python* ]] && module=$(__module "${@:2}") || return 1
  case " behave coverage nose2 nox pytest robot tox uv xdist " in
    *" ${module:-none} "*) ;;
    *) return 1 ;;
  esac
  command "$1" -c "import $module" > /dev/null 2>&1 && return 1
  printf '%s -m %s is not in the image' "$1" "$module"
}

# __found: where the script finds a program: its path, or the first one in PATH.
__found() {
  local folder IFS=:
  [[ $1 == */* ]] && { printf %s "$1"; return 0; }
  for folder in $PATH; do
    [[ $folder != /verifier/bin && (-e $folder/$1 || -L $folder/$1) ]] && { printf %s "$folder/$1"; return 0; }
  done
  return 1
}

# __in_work: a file is in a folder of the work.
__in_work() {
  local folder at IFS=:
  at=$([[ $1 ]] && cd "${1%/*}" 2> /dev/null && pwd -P) || return 1
  for folder in ${ROLLOUTD_WORK_FOLDERS-}; do
    [[ $at/ == "$folder"/* ]] && return 0
  done
  return 1
}

# __of_work: a program that gets tests is in a folder of the work, and so cannot read them. Of a link there, the verifier
# takes the next one in PATH.
__of_work() {
  local program
  program=$(__found "$1") && __of_verifier "${@:2}" && __in_work "$program" || return 1
  [[ $1 != */* && -L $program && -e /verifier/bin/$1 ]] && return 1
  printf '%s is in a folder of the work, which cannot read the tests' "$program"
}

# __lacks_python: uv cannot use the Python of a project in a folder of the work.
__lacks_python() {
  [[ ${2##*/} == uv ]] && __of_verifier "${@:3}" && __line 'Failed to (query|inspect) Python interpreter' "$1"
}

# __note RESULT PROGRAM [ARGUMENT...]: what became of a program that was given tests; others are not noted.
__note() {
  [[ $2 =~ (^|/)(apt|apt-get|curl|pip3?)$ ]] || ! (cd / && __of_verifier "${@:2}") || echo "$1" >> "$__notes.tests"
}

# __why STATUS OUTPUT ERRORS PROGRAM [ARGUMENT...]: the reason that a program failed, if no work can change it.
__why() {
  local status=$1 out=$2 err=$3
  shift 3
  __lacks_python "$err" "$@" && return 0
  [[ ! $__searches ]] || return 1
  __usage "$status" "$err" "$@" || __lacks_module "$status" "$out" "$err" "$@" || __lacks_network "$status" "$err" "$@" ||
    __lacks_project "$err" "$@"
}

# __stand_in PROGRAM [ARGUMENT...]
__stand_in() {
  local why status=0 out err at=$__notes.$BASHPID __searches=$__searches
  [[ $1 != */* ]] && __in_work "$(__found "$1")" && __searches=
  if why=$(__of_work "$@") || { [[ ! $__searches ]] && why=$(__missing "$@"); }; then
    echo "$why" >> "$__notes"
    __note prevented "$@"
    return 0
  fi
  rm -f "$ROLLOUTD_MISSING_MODULES"
  command "$@" > "$at.out" 2> "$at.err" || status=$?
  out=$(tail -c 100000 "$at.out") err=$(tail -c 100000 "$at.err")
  rm -f "$at.out" "$at.err"
  printf '%s\n' "$out"
  printf '%s\n' "$err" >&2
  if ((status == 0)) || ! why=$(__why "$status" "$out" "$err" "$@"); then
    __note ran "$@"
    return "$status"
  fi
  echo "${1##*/}: $why" >> "$__notes"
  __note prevented "$@"
}

# __wrapped WRAPPER [ARGUMENT...]: the program that a wrapper starts, if a function takes its place.
__wrapped() (
  wrapper=("$@")
  shift
  while (($#)) && [[ $1 =~ ^(-|[A-Za-z_]+=|[0-9.]+[smhd]?$|[A-Z0-9]+$) ]]; do
    [[ $1 == [A-Za-z_]*=* ]] && export "${1?}"
    shift
  done
  (($#)) && declare -F -- "$1" > /dev/null && { "$@"; exit; }
  command "${wrapper[@]}"
)
