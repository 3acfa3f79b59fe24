package taskset_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// withCompose is a Harbor task with a compose file and an image.
func withCompose(text string) map[string]string {
	return harborTask(map[string]string{
		"task.toml":                       "[environment]\ndocker_image = \"app:1\"\nenv = {A = \"toml\"}\n",
		"environment/docker-compose.yaml": text,
		"environment/db/Dockerfile":       "FROM x\n",
		"environment/db/other.Dockerfile": "FROM y\n",
	})
}

// The services of a compose file become those of the task's sandbox.
func TestCompose(t *testing.T) {
	t.Parallel()

	dir := folder(t, withCompose(`
version: "3.9"
x-log: &log {driver: json-file}
services:
  main:
    build: {context: "${CONTEXT_DIR}"}
    image: ${MAIN_IMAGE_NAME}
    command: ["sh", "-c", "sleep infinity"]
    environment: ["A=compose", "B=$$2", "TEST_DIR=${TEST_DIR}"]
    volumes: ["${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}", "data:/data:ro"]
    deploy: {resources: {limits: {cpus: "${CPUS}", memory: "${MEMORY}"}}}
    depends_on: {db: {condition: service_healthy}, seed: {condition: service_completed_successfully}}
  db:
    image: postgres:16
    container_name: db
    hostname: db
    platform: linux/amd64
    tty: true
    restart: always
    logging: *log
    ports: ["5432:5432"]
    command: postgres -c 'max_connections=5'
    environment: {POSTGRES_PASSWORD: "${PASSWORD:-secret}", PORT: 5432, ON: true}
    user: "999"
    working_dir: /srv
    mem_limit: 512m
    cpus: ${DB_CPUS:-0.5}
    healthcheck: {test: pg_isready -U x, interval: 2s, timeout: 1m30s, retries: 7, start_period: 500ms}
    volumes: [{type: volume, source: data, target: /var/lib/postgresql/data}, /scratch]
  seed:
    build: {context: ./db, dockerfile: other.Dockerfile}
    entrypoint: [/seed]
    depends_on: [db]
  web:
    build: ./db
    healthcheck: {test: [CMD, curl, -f, "http://localhost"]}
  quiet:
    image: x
    healthcheck: {test: [NONE]}
volumes: {data: }
`))
	task, err := open(t, dir).Task(0)
	require.NoError(t, err)
	require.Len(t, task.ServiceBuilds, 2)

	seed, web := task.ServiceBuilds[0], task.ServiceBuilds[1]
	require.Equal(t, "other.Dockerfile", seed.Dockerfile)
	require.Equal(t, filepath.Join(dir, "environment/db"), seed.Folder)
	require.NotEqual(t, seed.Image, web.Image)
	require.Len(t, task.Builds(), 2)

	require.Equal(t, map[string]any{
		"image": "app:1", "user": "image", "workdir": "image", "image_env": true,
		"env":     map[string]string{"A": "toml", "B": "$2", "TEST_DIR": "/tests"},
		"volumes": []rollout.Volume{{Name: "data", Path: "/data", ReadOnly: true}},
		"services": []rollout.Service{
			{
				Name: "db", Image: "postgres:16", Command: []string{"postgres", "-c", "max_connections=5"},
				Env:  map[string]string{"POSTGRES_PASSWORD": "secret", "PORT": "5432", "ON": "true"},
				User: "999", WorkingDir: "/srv", CPU: 0.5, MemoryMiB: 512,
				Healthcheck: &rollout.Healthcheck{
					Test: []string{"/bin/sh", "-c", "pg_isready -U x"}, Interval: 2, Timeout: 90, Retries: 7, StartPeriod: 0.5,
				},
				Volumes: []rollout.Volume{{Name: "data", Path: "/var/lib/postgresql/data"}},
			},
			{Name: "quiet", Image: "x"},
			{Name: "seed", Image: seed.Image, Entrypoint: []string{"/seed"}, DependsOn: []string{"db"}, Once: true},
			{
				Name: "web", Image: web.Image,
				Healthcheck: &rollout.Healthcheck{
					Test: []string{"curl", "-f", "http://localhost"}, Interval: 30, Timeout: 30,
				},
			},
		},
	}, task.Arguments()["sandbox"])
}

// A compose file may describe the agent's sandbox alone, and name its image.
func TestComposeOfMain(t *testing.T) {
	t.Parallel()

	read := func(compose string, more map[string]string) taskset.Task {
		files := harborTask(map[string]string{"task.toml": "", "environment/docker-compose.yaml": compose})
		for name, text := range more {
			files[name] = text
		}

		task, err := open(t, folder(t, files)).Task(0)
		require.NoError(t, err, compose)

		return task
	}

	main := read("services: {main: {image: \"app:2\", working_dir: /app, cpus: 2, mem_limit: 1g}}", nil)
	require.Equal(t, map[string]any{
		"image": "app:2", "user": "image", "workdir": "/app", "image_env": true, "cpu": 2.0, "memory_mib": 1024,
	}, main.Arguments()["sandbox"])

	dockerfile := map[string]string{"environment/Dockerfile": "FROM x\n", "environment/app/Dockerfile": "FROM x\n"}
	plain := read("services: {}", dockerfile)
	require.NotNil(t, plain.Build)
	require.Equal(t, "app", filepath.Base(read("services: {main: {build: ./app}}", dockerfile).Build.Folder))

	dockerfile["environment/app/Dockerfile"] = "FROM x\nWORKDIR /opt\n"
	other := read("services: {main: {build: ./app, working_dir: /app}}", dockerfile)
	require.Equal(t, "/app", other.Arguments()["sandbox"].(map[string]any)["workdir"])
}

// Variables of a compose file have the values of the task's environment, or the defaults that the file gives them, as the
// compose specification says.
func TestComposeVariables(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"$A-b":                       "toml-b",
		"${A}$$A$${A}":               "toml$A${A}",
		"${A:-x} ${A-x} ${A:?x}":     "toml toml toml",
		"${NO:-x} ${NO-x} ${NO:-}":   "x x ",
		"${MEMORY:-x}${MEMORY-x}":    "x",
		"${NO:-${NONE:-x}}!":         "x!",
		"${NO:-${NONE:-${A}}}":       "toml",
		"${NO:-$A}":                  "toml",
		"${A:-${NONE}}":              "toml",
		"${NO:-{\"a\": {\"b\": 1}}}": `{"a": {"b": 1}}`,
		"${A:+x$A}${A+x}":            "xtomlx",
		"${NO:+x}${NO+x}":            "",
		"${MEMORY:+x}${MEMORY+x}":    "x",
		"${NO:-a:-b}":                "a:-b",
		"${NO:-a-b?c}":               "a-b?c",
		"a } {b}":                    "a } {b}",
	} {
		task, err := open(t, folder(t, withCompose("services: {db: {image: x, environment: {V: '"+text+"'}}}"))).Task(0)
		require.NoError(t, err, text)
		require.Equal(t, want, task.Sandbox["services"].([]rollout.Service)[0].Env["V"], text)
	}

	task, err := open(t, folder(t, withCompose("services:\n  db:\n    image: x\n    environment:\n      EMPTY: ${NO:-}\n      WORD: ${NO:-null}\n"))).Task(0)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"EMPTY": "", "WORD": "null"}, task.Sandbox["services"].([]rollout.Service)[0].Env)

	for text, want := range map[string]string{
		"$NO":                           "line 1: $NO: must be a value or have a default (${NO:-value})",
		"${NO:-${NONE}}":                "${NONE}: must be a value or have a default",
		"${NO:?set it}":                 "${NO}: must have a value, which a task gets from no variable of the host: set it",
		"${NO?}":                        "${NO}: must have a value",
		"$":                             "$: must be a value or have a default (${NAME:-value})",
		"${A/a/b}":                      "${A/a/b}: must be a value",
		"${A:}":                         "${A:}: must be a value",
		"${}":                           "${}: must be a value",
		"${A:-x":                        "${A:-x: must end with a }",
		strings.Repeat("${NO:-", 30000): "must end with a }, after at most 20 within it",
	} {
		_, err := open(t, folder(t, withCompose("services: {db: {image: x, environment: {V: '"+text+"'}}}"))).Task(0)
		require.ErrorContains(t, err, want, text)
	}
}

// Builds of a folder with other values for ARG give other images.
func TestComposeBuildArguments(t *testing.T) {
	t.Parallel()

	task, err := open(t, folder(t, withCompose(`
services:
  a: {build: {context: db, args: {LEVEL: 2, MODE: "${MODE:-test}"}}}
  b: {build: {context: db, args: [MODE=test, LEVEL=2]}}
  c: {build: {context: db, args: {LEVEL: 3}}}
  d: {build: db}
`))).Task(0)
	require.NoError(t, err)

	builds := task.ServiceBuilds
	require.Equal(t, map[string]string{"LEVEL": "2", "MODE": "test"}, builds[0].Args)
	require.Equal(t, builds[0].Image, builds[1].Image)
	require.NotEqual(t, builds[0].Image, builds[2].Image)
	require.NotEqual(t, builds[2].Image, builds[3].Image)
	require.Len(t, builds[2].Image, len(builds[3].Image))
	require.Equal(t, builds[2].Image, task.Sandbox["services"].([]rollout.Service)[2].Image)
}

// The agent's image may be built of the whole folder of the task, as in Harbor's older tasks.
func TestComposeBuildsTheTaskFolder(t *testing.T) {
	t.Parallel()

	for _, build := range []string{
		`{context: "${CONTEXT_DIR}/..", dockerfile: "${CONTEXT_DIR}/Dockerfile"}`, `{context: .., dockerfile: environment/Dockerfile}`,
	} {
		dir := folder(t, harborTask(map[string]string{
			"task.toml":                       "",
			"environment/Dockerfile":          "FROM x\nCOPY app /app\n",
			"environment/docker-compose.yaml": "services: {main: {build: " + build + "}}",
		}))
		task, err := open(t, dir).Task(0)
		require.NoError(t, err)
		require.Equal(t, dir, task.Build.Folder)
		require.Equal(t, "environment/Dockerfile", task.Build.Dockerfile)
		require.Equal(t, task.Build.Image, task.Sandbox["image"])
	}
}

// Harbor reads docker-compose.yaml alone: another one is a file of the task, such as one that the agent mends.
func TestComposeFileOfTheTask(t *testing.T) {
	t.Parallel()

	task, err := open(t, folder(t, harborTask(map[string]string{
		"task.toml":                      "",
		"environment/Dockerfile":         "FROM x\nCOPY docker-compose.yml /app/\n",
		"environment/docker-compose.yml": "api: {container_name: a}\n",
	}))).Task(0)
	require.NoError(t, err)
	require.NotContains(t, task.Sandbox, "services")
}

// What of a compose file has no meaning here is refused by its place.
func TestRefusedCompose(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"services: {db: {image: x, privileged: true}}":           "services.db.privileged: is not supported",
		"services: {db: {image: x, cap_add: [A], devices: [b]}}": "services.db.devices: is not supported",
		"services: {db: {image: x, network_mode: host}}":         "services.db.network_mode: is not supported",
		"services: {db: {image: x, env_file: a}}":                "services.db.env_file: is not supported",
		"services: {db: {image: x, hostname: a}}":                "services.db.hostname: must be left out or \"db\": only the names of services lead to them here, got \"a\"",
		"services: {db: {image: x, container_name: a}}":          "services.db.container_name: must be left out or \"db\"",
		"services: {db: {image: x, platform: linux/arm64}}":      "services.db.platform: must be linux/amd64",
		"services: {main: {platform: windows/amd64}}":            "services.main.platform: must be linux/amd64",
		"services: {db: {image: x}}\nsecrets: {}":                "secrets: is not supported",
		"include: [a]": "include: is not supported",
		"services: {db: {build: {context: ., target: a}}}":                                 "services.db.build.target: is not supported",
		"services: {db: {build: {context: db, args: [A]}}}":                                "A: must have a value: a task gets no variable of the host",
		"services: {db: {build: ../../x}}":                                                 "services.db.build.context: must be a folder of the task",
		"services: {db: {build: /x}}":                                                      "services.db.build.context: must be a folder of the task",
		"services: {db: {build: {context: db, dockerfile: ../x}}}":                         "services.db.build.dockerfile: must be a file of the context",
		"services: {db: {build: nothing}}":                                                 "services.db.build: environment/nothing/Dockerfile is missing",
		"services: {db: {}}":                                                               "sandbox.services[0].image: must be the name of an image",
		"services: {db: {image: x, volumes: [./a:/a]}}":                                    "services.db.volumes[0]: a bind is not supported: copy the files in a Dockerfile",
		"services: {db: {image: x, volumes: [/var/run/docker.sock:/s]}}":                   "services.db.volumes[0]: a bind is not supported",
		"services: {db: {image: x, volumes: [{type: tmpfs, target: /a}]}}":                 "services.db.volumes[0]: a tmpfs is not supported",
		"services: {db: {image: x, volumes: [a:/a]}}":                                      "services.db.volumes[0]: there is no volume \"a\"",
		"services: {db: {image: x, volumes: [a:/proc]}}\nvolumes: {a: }":                   "sandbox.services[0].volumes[0].path: /proc is a folder of the sandbox itself",
		"services: {db: {image: x, volumes: [a:/a:z]}}\nvolumes: {a: }":                    "must be a volume such as data:/data",
		"services: {db: {image: x}}\nvolumes: {a: {external: true}}":                       "volumes.a.external: is not supported",
		"services: {db: {image: x, networks: [a]}, web: {image: x}}":                       "services.web.networks: all services have one network here",
		"services: {db: {image: x, networks: {a: {aliases: [b]}}}}":                        "services.db.networks.a.aliases: is not supported",
		"services: {db: {image: x, environment: [A]}}":                                     "A: must have a value: a task gets no variable of the host",
		"services: {db: {image: x, environment: {A: }}}":                                   "A: must have a value: a task gets no variable of the host",
		"services: {db: {image: \"x:${TAG}\"}}":                                            "${TAG}: must be a value or have a default",
		"services: {db: {image: x, command: run $$A}}":                                     "must be a list, since it has variables",
		"services: {db: {image: x, command: \"a 'b\"}}":                                    "docker-compose.yaml: line 1",
		"services: {main: {command: run}}":                                                 "services.main.command: must be left out",
		"services: {main: {user: x}}":                                                      "services.main.user: must be left out: set agent.user",
		"services: {main: {healthcheck: {test: x}}}":                                       "services.main.healthcheck: must be left out",
		"services: {main: {depends_on: [db]}}":                                             "services.main.depends_on.db: there is no such service",
		"services: {main: {depends_on: {a: {condition: x}}}, a: {image: x}}":               "services.main.depends_on.a.condition: must be",
		"services: {main: {depends_on: {a: {condition: service_healthy}}}, a: {image: x}}": "service_healthy needs services.a.healthcheck",
		"services: {a: {image: x, depends_on: [main]}}":                                    "services.a.depends_on.main: the agent's sandbox is always there",
		"services: {a: {image: x, depends_on: [b]}, b: {image: x, depends_on: [a]}}":       "must not depend on each other in a circle",
		"services: {a: {image: x, healthcheck: {test: [x]}}}":                              "services.a.healthcheck.test: must be a text, or",
		"services: {a: {image: x, healthcheck: {test: x, interval: 3}}}":                   "services.a.healthcheck.interval: must be a time such as",
		"services: {a: {image: x, healthcheck: {test: x, interval: 1h}}}":                  "sandbox.services[0].healthcheck: must have times of at most 300",
		"services: {a: {image: x, mem_limit: much}}":                                       "services.a.mem_limit: must be a size such as",
		"services: {a: {image: x, deploy: {replicas: 2}}}":                                 "services.a.deploy.replicas: is not supported",
		"services: {A: {image: x}}":                                                        "sandbox.services[0].name: must be 1 to 20 small letters",
		"services: [a]":                                                                    "docker-compose.yaml: line 1",
		"services: {":                                                                      "docker-compose.yaml: line 1",
		"x: " + strings.Repeat("a", 256<<10):                                               "must be at most 262144 bytes",
	} {
		_, err := open(t, folder(t, withCompose(text))).Task(0)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "docker-compose.yaml", text)
	}

	_, err := open(t, folder(t, harborTask(map[string]string{"environment/docker-compose.yaml": "services: {}"}))).Task(0)
	require.ErrorContains(t, err, "services.main.image: is missing")
}

func FuzzCompose(f *testing.F) {
	for _, text := range []string{
		"services: {db: {image: x, command: a b, environment: [A=b], volumes: [a:/a]}}\nvolumes: {a: }",
		"services: {db: {build: {context: db}, healthcheck: {test: x, interval: 1s}}}",
		"services: {a: &a {image: \"${A:-b}\"}, b: *a}", "services: {a: {<<: {image: x}, deploy: {}}}", "", "a", "[]",
		"services: {a: }", "services: {a: {networks: , depends_on: , volumes: [ ], environment: }}",
	} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		task, err := open(t, folder(t, withCompose(text))).Task(0)
		if err != nil {
			return
		}

		services, _ := task.Sandbox["services"].([]rollout.Service)
		volumes, _ := task.Sandbox["volumes"].([]rollout.Volume)
		require.NoError(t, rollout.Sandbox{Image: "x", Services: services, Volumes: volumes}.CheckServices())
	})
}
