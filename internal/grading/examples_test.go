package grading_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// The verifiers of examples/ give honest work the reward 1, and work that ends the judge's process the reward 0.
func TestExamples(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	for name, c := range map[string]struct {
		// the agent's commands in bash
		honest, cheat string
	}{
		"binary_search": {
			honest: `cat > binary_search.py <<'E'
def binary_search(items, target):
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] < target: low = middle + 1
        else: high = middle
    return low if low < len(items) and items[low] == target else -1
E`,
			cheat: "echo 'import os; os._exit(0)' | tee binary_search.py judge.py json.py > subprocess.py",
		},
		"csv_stats": {
			honest: `cat > stats.py <<'E'
import csv, json
out = {}
for row in csv.DictReader(open("sales.csv")):
    try: units, price = int(row["units"]), float(row["price"])
    except ValueError: continue
    r = out.setdefault(row["region"], {"units": 0, "revenue": 0})
    r["units"] += units; r["revenue"] = round(r["revenue"] + units * price, 2)
json.dump(out, open("stats.json", "w"))
E
python3 stats.py`,
			cheat: "echo 'import os; os._exit(0)' | tee stats.py > json.py; ln -s $VERIFIER_DIR/reward.txt stats.json",
		},
		"fizzbuzz": {
			honest: `cat > fizzbuzz.sh <<'E'
[[ ${1-20} =~ ^[1-9][0-9]*$ ]] || { echo usage >&2; exit 2; }
for ((i = 1; i <= ${1-20}; i++)); do o=; ((i % 3)) || o=Fizz; ((i % 5)) || o+=Buzz; echo ${o:-$i}; done
E`,
			cheat: "echo 'kill -9 $PPID; exit 0' > fizzbuzz.sh; printf '#!/bin/sh\nexit 0\n' > diff; chmod +x diff",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			task, err := taskset.OpenFile(filepath.Join("..", "..", "examples", name+".yaml"))
			require.NoError(t, err)

			s := style{verifier: rollout.Verifier{
				Script:   task.TestScript,
				Commands: task.Verify,
				Files:    task.TestFiles,
			}}

			for who, does := range map[string]string{"honest": c.honest, "cheat": c.cheat} {
				id := name + "-" + who
				a.agent(t, id, cheat{agent: "cd workdir; " + writes(task.Files) + does})
				record := a.grade(t, id, 0, s, 5*time.Minute)

				want := 0.0
				if who == "honest" {
					want = 1
				}

				require.InDelta(t, want, *record.Reward, 0, "%s: %+v", who, record)
			}
		})
	}
}

// writes returns bash commands that write the task's files.
func writes(files map[string]string) string {
	var all string
	for name, text := range files {
		all += "cat > " + name + " <<'END_OF_FILE'\n" + text + "END_OF_FILE\n"
	}

	return all
}
