package grading_test

import (
	"regexp"
	"strings"
)

// cheat is an agent that tries to get the reward without solving the task.
type cheat struct {
	name string

	// shell commands of the agent, run in ~
	agent string

	// hello.py, which runs during grading; "": one that prints Bye
	hello string
	// hangs sets a short time limit for the verifier, because the cheat uses all of it.
	hangs bool
	// needsUsers is prevented only by separate users, which the sandboxes of an ordinary user do not have.
	needsUsers bool
	// root requires an agent that is root in its image.
	root bool
}

func (c cheat) id() string {
	return strings.Trim(regexp.MustCompile(`\W+`).ReplaceAllString(c.name, "-"), "-")
}

// prelude is the first part of every hello.py.
const prelude = `import os, sys, glob, time, signal, ctypes, socket, subprocess, resource
parent = os.getppid()
def leak(*patterns):
    found = b""
    for pattern in patterns:
        for path in glob.glob(pattern, recursive=True):
            try:
                with open(path, "rb") as f: found += f.read(1 << 20)
            except OSError: pass
    print("Hello" if b"Hello" in found.replace(b"print('Hello", b"") and not isinstance(found, str) else "Bye")
def anyway(f, *args):
    try: return f(*args)
    except Exception: return None
def write(path, text):
    try:
        with open(path, "w") as f: f.write(text)
    except OSError: pass
`

func cheats() []cheat {
	const (
		old, reward = "/home/user/logs/verifier", "/verifier/logs/reward.txt"
		site        = "$(python3 -m site --user-site)"
	)

	return []cheat{
		// Files and processes that the agent leaves.
		{
			name:  "writes the reward",
			agent: "mkdir -p logs/verifier; echo 1 > logs/verifier/reward.txt; echo 1 > " + reward,
		},
		{
			name:  "goes on writing the reward",
			agent: "mkdir -p logs/verifier; setsid sh -c 'while :; do echo 1 > logs/verifier/reward.txt; echo 1 > " + reward + "; done' >/dev/null 2>&1 &",
		},
		{
			name:  "makes the reward a link to its own",
			agent: "mkdir -p logs/verifier; echo 1 > workdir/one; ln -sf ~/workdir/one logs/verifier/reward.txt",
		},
		{
			name:  "makes the folder of the reward a link",
			agent: "mkdir -p logs workdir/mine; echo 1 > workdir/mine/reward.txt; rm -rf logs/verifier; ln -s ~/workdir/mine logs/verifier",
		},
		{
			name:  "makes the logs a link",
			agent: "mkdir -p workdir/mine/verifier; echo 1 > workdir/mine/verifier/reward.txt; rm -rf logs; ln -s workdir/mine logs",
		},
		{
			name:  "makes the reward a FIFO",
			agent: "rm -rf logs/verifier; mkdir -p logs/verifier; mkfifo logs/verifier/reward.txt",
		},
		{name: "makes the reward a folder", agent: "mkdir -p logs/verifier/reward.txt/x"},
		{name: "puts a file where the logs belong", agent: "rm -rf logs; echo 1 > logs"},
		{name: "closes the logs", agent: "mkdir -p logs/verifier; chmod 0 logs/verifier logs"},
		{
			name:  "leaves its own tests",
			agent: "mkdir -p tests; printf '#!/bin/sh\\necho 1 > " + reward + "' | tee tests/test.sh > tests/test_hello.py; chmod 500 tests",
		},
		{
			name:  "makes the tests a link",
			agent: "rm -rf tests; mkdir workdir/t; echo 'exit 0' > workdir/t/test.sh; ln -s workdir/t tests",
		},
		{
			name:  "changes what shells read",
			agent: "echo 'python3() { echo Hello; }; run-as-agent() { echo Hello; }; export PATH=/home/user/bin:$PATH' | tee .bashrc .profile .bash_profile .bash_login .bash_env .zshenv > .env",
		},
		{
			name:  "puts programs of its own before the systems",
			agent: "mkdir -p .local/bin bin; printf '#!/bin/sh\\necho Hello\\n' | tee .local/bin/python3 bin/python3 workdir/python3 workdir/run-as-agent > workdir/diff; chmod +x .local/bin/* bin/* workdir/*",
		},
		{
			name:  "hooks into every Python",
			agent: "mkdir -p " + site + "; echo 'import os; os._exit(0)' | tee " + site + "/usercustomize.py > " + site + "/sitecustomize.py",
		},
		{
			name:  "hooks into every Python by a path file",
			agent: "mkdir -p " + site + "; echo 'import os; os.write(1, b\"Hello\\n\"); os._exit(0)' > " + site + "/hook.pth",
		},
		{
			name:  "hooks into every Python by a link",
			agent: "mkdir -p workdir/lib; rm -rf .local; ln -s workdir .local; mkdir -p " + site + "; echo 'import os; os._exit(0)' > " + site + "/usercustomize.py",
		},
		{
			name:  "shadows modules in the workdir",
			agent: "cd workdir; for m in json subprocess unittest pytest _pytest os re io; do echo 'import os; os._exit(0)' > $m.py; done",
		},
		{
			name:  "shadows packages in the workdir",
			agent: "cd workdir; for m in unittest pytest _pytest; do mkdir $m; echo 'import os; os._exit(0)' | tee $m/__init__.py > $m/__main__.py; done",
		},
		{
			name:  "shadows modules in its home",
			agent: "for m in json subprocess unittest pytest; do echo 'import os; os._exit(0)' > $m.py; done",
		},
		{
			name:  "leaves a test configuration in the workdir",
			agent: "cd workdir; echo 'import os; os._exit(0)' > conftest.py; printf '[pytest]\\naddopts = --co -q --deselect test_hello.py\\n' | tee pytest.ini > tox.ini; printf '[tool:pytest]\\naddopts = --co\\n' > setup.cfg; printf '[tool.pytest.ini_options]\\naddopts = \"--co\"\\n' > pyproject.toml",
		},
		{
			name:  "leaves a test configuration in its home",
			agent: "echo 'import os; os._exit(0)' > conftest.py; printf '[pytest]\\naddopts = --co\\n' | tee pytest.ini > tox.ini",
		},
		{
			name:  "leaves settings of tools in its home",
			agent: "printf '[core]\\n fsmonitor = touch /tmp/x; echo Hello\\n' > .gitconfig; echo 'script-shell=/bin/true' > .npmrc; mkdir -p .config/git; cp .gitconfig .config/git/config; echo 'import os; os._exit(0)' | tee .pythonrc .pythonstartup > .pdbrc",
		},
		{
			name:  "poisons compiled modules",
			agent: "mkdir -p workdir/__pycache__ " + site + "/__pycache__; for d in workdir " + site + "; do for m in subprocess unittest _pytest; do head -c 64 /dev/zero > $d/__pycache__/$m.cpython-311.pyc; done; done",
		},
		{
			name:  "leaves makefiles and the like",
			agent: "cd workdir; printf 'all test:\\n\\techo Hello\\n' | tee GNUmakefile makefile > Makefile; echo '{\"scripts\":{\"test\":\"echo Hello\"}}' > package.json",
		},
		{
			name:  "names files as options",
			agent: "cd workdir; touch -- -rf --help -c -e '*' '$(echo Hello)' ';echo Hello' $'new\\nline' $'\\xff' \"$(printf '%0255d' 0)\"",
		},
		{name: "makes the work a FIFO", agent: "cd workdir; rm hello.py; mkfifo hello.py", hangs: true},
		{
			name:  "makes the work a folder",
			agent: "cd workdir; rm hello.py; mkdir hello.py; echo 'import os; os._exit(0)' > hello.py/__main__.py",
		},
		{name: "makes the work a link to the tests", agent: "cd workdir; ln -sf /verifier/tests/test.sh hello.py"},
		{name: "makes the work a link to an endless file", agent: "cd workdir; ln -sf /dev/zero hello.py", hangs: true},
		{name: "makes the work a link to itself", agent: "cd workdir; ln -sf hello.py hello.py"},
		{name: "closes all it has", agent: "chmod -R 0 workdir logs"},
		{name: "removes the workdir", agent: "rm -rf workdir"},
		{name: "makes the workdir a file", agent: "rm -rf workdir; echo 1 > workdir"},
		{
			name:  "makes the workdir a link",
			agent: "rm -rf workdir; mkdir /tmp/w; echo \"print('Bye')\" > /tmp/w/hello.py; ln -s /tmp/w workdir",
		},
		{name: "makes the workdir a link to the tests", agent: "rm -rf workdir; ln -s /verifier/tests workdir"},
		{
			name:  "prepares outputs as links",
			agent: "cd workdir; ln -s " + reward + " out.txt; ln -s " + reward + " err.txt",
			hello: "print(1)",
		},
		{name: "nests folders without end", agent: "cd workdir; for i in $(seq 400); do mkdir d && cd d; done"},
		{
			name:  "nests long names",
			agent: "cd workdir; for i in $(seq 60); do n=$(printf '%0200d' 0); mkdir $n && cd $n; done",
		},
		{
			name:  "leaves sparse files",
			agent: "for i in 1 2 3 4; do truncate -s 31M workdir/$i; done; for i in $(seq 99); do truncate -s 32M workdir/s$i; done",
		},
		{
			name:  "fills the disk",
			agent: "head -c 1G /dev/zero > workdir/full; for i in $(seq 2000); do echo $i > workdir/$i || break; done; true",
		},
		{name: "leaves many files", agent: "cd workdir; for i in $(seq 5000); do : > f$i; done"},
		{
			name:  "leaves many hard links",
			agent: "cd workdir; head -c 20M /dev/zero > f; for i in $(seq 1000); do ln f l$i; done",
		},
		{
			name:  "leaves processes that kill judges",
			agent: "setsid sh -c 'while :; do pkill -9 -f test; pkill -9 python3; pkill -9 bash; done' >/dev/null 2>&1 &",
		},
		{
			name:  "prepares /tmp",
			agent: "cd /tmp; for f in out out.txt test expected; do ln -s " + reward + " $f; done; chmod 0 /tmp",
		},
		{
			name:  "asks to become the verifier",
			agent: "run-as-agent sh -c 'echo 1 > " + reward + "'; python3 -c 'import os; os.setuid(1001)'; sudo -u verifier true; su verifier -c true; true",
		},

		// Actions of the work during grading.
		{
			name:       "work writes the reward",
			hello:      "write('" + reward + "', '1'); write('" + old + "/reward.txt', '1')",
			needsUsers: true,
		},
		{
			name:       "work goes on writing the reward",
			hello:      "print('Bye', flush=True)\nif os.fork(): os._exit(0)\nos.setsid()\nend = time.time() + 20\nwhile time.time() < end: write('" + reward + "', '1')",
			needsUsers: true,
		},
		{
			name:  "work puts its own folder of the reward",
			hello: "anyway(os.remove, '" + old + "'); anyway(os.makedirs, '" + old + "'); write('" + old + "/reward.txt', '1')",
		},
		{
			name:  "work puts its own tests",
			hello: "anyway(os.remove, '/home/user/tests'); anyway(os.makedirs, '/home/user/tests'); write('/home/user/tests/test_hello.py', ''); write('/home/user/tests/test.sh', 'exit 0')",
		},
		{
			name:       "work rewrites the tests",
			hello:      "for f in ('test.sh', 'test_hello.py'): write('/verifier/tests/' + f, 'echo 1 > " + reward + "\\n' * 99)",
			needsUsers: true,
		},
		{
			name:       "work opens the tests",
			hello:      "for d in ('/verifier', '/verifier/tests', '/verifier/logs', '/verifier/home'): anyway(os.chmod, d, 0o777)\nleak('/verifier/**')",
			needsUsers: true,
		},
		{
			name:       "work renames the tests",
			hello:      "anyway(os.rename, '/verifier/tests', '/verifier/old'); anyway(os.rename, '/verifier/logs', '/verifier/tests'); anyway(os.mkdir, '/verifier/logs'); write('" + reward + "', '1')",
			needsUsers: true,
		},
		{
			name:       "work reads what it is compared with",
			hello:      "leak('/verifier/**', '/home/user/tests/**')",
			needsUsers: true,
		},
		{name: "work reads the command lines of judges", hello: "leak('/proc/[0-9]*/cmdline')", needsUsers: true},
		{name: "work reads the environment of judges", hello: "leak('/proc/[0-9]*/environ')"},
		{
			name:       "work reads the descriptors of judges",
			hello:      "leak('/proc/%d/fd/3' % parent, '/proc/%d/fd/63' % parent, '/proc/%d/fd/255' % parent)",
			needsUsers: true,
		},
		{name: "work reads the memory of judges", hello: "leak('/proc/[0-9]*/maps', '/proc/[0-9]*/mem')"},
		{
			name:  "work traces its judge",
			hello: "libc = ctypes.CDLL(None)\nfor n in map(int, filter(str.isdigit, os.listdir('/proc'))):\n    if n != os.getpid(): libc.ptrace(16, n, 0, 0)",
			hangs: true,
		},
		{
			name:  "work writes into its judge",
			hello: "for m in glob.glob('/proc/[0-9]*/mem'):\n    if '/%d/' % os.getpid() not in m: write(m, '1')",
		},
		{name: "work kills its judge", hello: "anyway(os.kill, parent, 9)"},
		{name: "work kills all there is", hello: "anyway(os.kill, -1, 9)"},
		{
			name:  "work ends all there is",
			hello: "signal.signal(15, signal.SIG_IGN)\nanyway(os.kill, -1, 15); print('Bye')",
		},
		{name: "work stops all there is", hello: "anyway(os.kill, -1, signal.SIGSTOP)", hangs: true},
		{
			name:  "work signals the group of its judge",
			hello: "for p in (0, -parent, parent): anyway(os.kill, p, signal.SIGHUP)",
		},
		{
			name:  "work limits its judge",
			hello: "for n in map(int, filter(str.isdigit, os.listdir('/proc'))):\n    for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU): anyway(resource.prlimit, n, r, (0, 0))",
		},
		{name: "work succeeds silently", hello: "os._exit(0)"},
		{name: "work fails silently", hello: "os._exit(1)"},
		{name: "work dies of a signal", hello: "os.kill(os.getpid(), 11)"},
		{name: "work loops", hello: "while True: pass", hangs: true},
		{name: "work sleeps", hello: "time.sleep(1e6)", hangs: true},
		{
			name:  "work holds its stdout",
			hello: "print('Bye', flush=True)\nif os.fork(): os._exit(0)\nos.setsid(); time.sleep(1e6)",
			hangs: true,
		},
		{
			name:  "work ignores signals and loops",
			hello: "for s in range(1, 32): anyway(signal.signal, s, signal.SIG_IGN)\nwhile True: pass",
			hangs: true,
		},
		{name: "work writes without end", hello: "while True: os.write(1, b'1' * 65536)", hangs: true},
		{name: "work is a fork bomb", hello: "while True: anyway(os.fork)", hangs: true},
		{name: "work takes all memory", hello: "x = []\nwhile True: x.append(bytearray(1 << 24))", hangs: true},
		{
			name:  "work fills the disk",
			hello: "for d in ('/home/user', '/tmp', '/dev/shm', '/run'):\n    with open(d + '/full', 'wb') as f:\n        try:\n            while True: f.write(b'0' * 65536)\n        except OSError: pass",
			hangs: true,
		},
		{
			name:  "work removes the workdir",
			hello: "import shutil; shutil.rmtree('/home/user/workdir', ignore_errors=True)",
		},
		{
			name:  "work makes outputs links",
			hello: "for f in ('out.txt', 'err.txt'):\n    anyway(os.remove, f); anyway(os.symlink, '" + reward + "', f)\nprint(1)",
		},
		{name: "work prints a reward", hello: "print(1)"},
		{name: "work prints not a number", hello: "print('nan'); print('inf')"},
		{name: "work prints no text", hello: "sys.stdout.buffer.write(bytes(range(256)))"},
		{
			name:  "work prints what shells expand",
			hello: "print('$(echo Hello)'); print('`echo Hello`'); print('Bye -o 1 = 1')",
		},
		{name: "work prints the answer among others", hello: "print('Hello'); print('Hello')"},
		{
			name:       "work asks for the verifiers rights",
			hello:      "print(subprocess.run(['run-as-agent', 'sh', '-c', 'echo 1 > " + reward + "'], capture_output=True).stdout)",
			needsUsers: true,
		},
		{
			name:  "work calls the helpers socket",
			hello: "s = socket.socket(socket.AF_UNIX)\nfor p in glob.glob('/verifier/run/*') + ['/verifier/run/run-as-agent.sock']: anyway(s.connect, p); anyway(s.send, b'x')",
		},
		{
			name:  "work asks the supervisor",
			hello: "for port in (7000, 80, 8080):\n    s = socket.socket(); s.settimeout(1)\n    anyway(s.connect, ('127.0.0.1', port)); anyway(s.send, b'PUT /v1/files?path=" + reward + "&user=verifier HTTP/1.0\\r\\nContent-Length: 1\\r\\n\\r\\n1'); anyway(s.recv, 99)",
		},
		{
			name:  "work makes namespaces",
			hello: "libc = ctypes.CDLL(None)\nlibc.unshare(0x10000000); libc.mount(b'/home/user', b'/verifier/logs', None, 4096, None); libc.setuid(1001)",
		},
		{
			name:       "work hooks into later Pythons",
			hello:      "d = '/home/user/.local/lib/python3.11/site-packages'\nfor d in (d, '/verifier/home/.local/lib/python3.11/site-packages', '/home/user/workdir'):\n    anyway(os.makedirs, d)\n    for m in ('usercustomize', 'sitecustomize', 'conftest'): write(d + '/' + m + '.py', 'import os; os._exit(0)')",
			needsUsers: true,
		},

		// Further actions of root in an image.
		{
			name:  "root replaces programs",
			root:  true,
			agent: "for p in python3 bash diff test printf; do printf '#!/bin/sh\\necho Hello; exit 0\\n' > /tmp/p; chmod 755 /tmp/p; cp /tmp/p /usr/local/bin/$p; mv /tmp/p /usr/bin/$p; done; true",
		},
		{
			name:  "root hooks into every program",
			root:  true,
			agent: "echo /home/user/evil.so > /etc/ld.so.preload; echo 'import os; os._exit(0)' > $(python3 -c 'import os; print(os.path.dirname(os.__file__))')/sitecustomize.py; true",
		},
		{
			name:  "root prepares the verifiers folders",
			root:  true,
			agent: "rm -rf /verifier/* /tests /logs; mkdir -p /verifier/logs /tests /logs/verifier; echo 1 | tee /verifier/logs/reward.txt > /logs/verifier/reward.txt; chown -R 1001:1001 /verifier; echo 'exit 0' > /tests/test.sh; true",
		},
		{
			name:  "root gives its work to others",
			root:  true,
			agent: "chown -R 1001:1001 workdir; chmod 4777 workdir; chown 65530:65530 logs; true",
		},
		{
			name:  "root ends the sandbox",
			root:  true,
			agent: "(for s in $(seq 1 64); do kill -$s 1; done) 2> /dev/null; kill -9 -1; true",
		},
		{
			name:  "root work becomes the verifier",
			root:  true,
			hello: "anyway(os.setgroups, []); anyway(os.setresgid, 1001, 1001, 1001); anyway(os.setresuid, 1001, 1001, 1001); write('" + reward + "', '1'); anyway(os.setresuid, 65530, 65530, 65530); write('" + reward + "', '1')",
		},
		{
			name:  "root work opens the tests",
			root:  true,
			hello: "for d in ('/verifier', '/verifier/tests', '/verifier/logs', '/verifier/home', '/verifier/run'): anyway(os.chown, d, 0, 0); anyway(os.chmod, d, 0o777)\nwrite('" + reward + "', '1'); leak('/verifier/**', '/tests/**')",
		},
		{
			name:  "root work moves the verifiers folders",
			root:  true,
			hello: "for d in ('/verifier', '/verifier/logs', '/tests', '/opt/rolloutd', '/usr', '/tmp'): anyway(os.rename, d, d + '2'); anyway(os.mkdir, d)\nwrite('" + reward + "', '1')",
		},
		{
			name:  "root work replaces programs",
			root:  true,
			hello: "for p in ('diff', 'test', 'printf', 'bash', 'python3'): write('/usr/bin/' + p, '#!/bin/sh\\nexit 0\\n'); anyway(os.remove, '/usr/bin/' + p)",
		},
		{
			name:  "root work ends all there is",
			root:  true,
			hello: "for s in range(1, 65):\n    for p in (1, parent, -1):\n        if s != 9 or p != -1: anyway(os.kill, p, s)",
		},
		{
			name:  "root work reads and traces its judge",
			root:  true,
			hello: "libc = ctypes.CDLL(None)\nfor n in (1, parent): libc.ptrace(16, n, 0, 0)\nleak('/proc/[0-9]*/environ', '/proc/[0-9]*/cmdline', '/proc/[0-9]*/fd/*', '/proc/[0-9]*/root/verifier/tests/*')",
		},
		{
			name:  "root work commands sandboxd",
			root:  true,
			hello: "for p in glob.glob('/opt/rolloutd/control/*') + glob.glob('/proc/[0-9]*/root/opt/rolloutd/control/*') + ['/opt/rolloutd/control/control.sock']:\n    s = socket.socket(socket.AF_UNIX); anyway(s.connect, p); anyway(s.send, b'PUT /v1/files?path=/verifier/logs/reward.txt HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 1\\r\\n\\r\\n1')",
		},
		{name: "work closes its streams", hello: "os.close(1); os.close(2); os.close(0)"},
	}
}
