package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"mvdan.cc/sh/v3/pattern"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// TimeoutNull is the value of Verifier.OnTimeout that gives no reward when the verifier's time is up.
const TimeoutNull = "null"

// Values of Verifier.Grade.
const (
	GradeFresh  = "fresh"
	GradeLive   = "live"
	GradeShared = "shared"
)

// Grades are the values of Verifier.Grade.
func Grades() []string { return []string{GradeFresh, GradeLive, GradeShared} }

// Verifier grades the workspace after the agent has stopped. With neither Script nor Commands the reward is null.
type Verifier struct {
	// generation 1: a bash script that writes the reward file
	Script string `json:"script,omitempty"`

	// generation 2: bash commands, all of them run; the reward is the share that passed
	Commands []string `json:"commands,omitempty"`
	// Files are staged in the verifier's tests folder when grading begins; setup and the agent never see
	// them. Names are relative to that folder, or absolute below TestsDir.
	Files map[string]string `json:"files,omitempty"`
	// FilesRef is an archive in the store with further files, a tar below the tests folder: those that the
	// client has uploaded before.
	FilesRef *Ref `json:"files_ref,omitempty"`
	// RewardRange is [min, max] of what Script may write; empty: [0, 1].
	RewardRange []float64 `json:"reward_range,omitempty"`
	// RewardKey names the reward among several that Script may write to reward.json; see MainReward.
	RewardKey string `json:"reward_key,omitempty"`
	// OnTimeout says what the reward is when the verifier's time is up. "": a command that did not end has failed, a
	// script that did not end gives 0. TimeoutNull: the outcome is verifier_failed and the reward null.
	OnTimeout string `json:"on_timeout,omitempty"`
	// Grade says where the verifier runs and what it sees. "" or GradeFresh: in a fresh sandbox with the work, all processes
	// of the agent are ended. GradeLive: there too, while the processes go on in the agent's sandbox, and their TCP ports
	// are the verifier's too. GradeShared: in the agent's sandbox, as the agent's user, with all that the agent has changed.
	Grade string `json:"grade,omitempty"`
	// Image is that of the verifier's sandbox, which then gets Artifacts of the agent's sandbox and nothing else; "": the
	// verifier's sandbox is of the agent's image, with all of the work.
	Image string `json:"image,omitempty"`
	// Artifacts are absolute paths of files and folders, which are at the same paths in the sandbox of Image.
	Artifacts []string `json:"artifacts,omitempty"`
	// Exclude are patterns of what is left out of a folder of Artifacts, by its path, as for tar's --exclude.
	Exclude map[string][]string `json:"exclude,omitempty"`
	// Collect are bash commands that run in the agent's sandbox, as its user, before the artifacts are saved. One that
	// fails is noted and changes nothing: the artifacts are judged.
	Collect []CollectCommand `json:"collect,omitempty"`
	// External leaves grading to a client: the sandbox is held after the agent has ended, for
	// Limits.Verifier at most, until the client gives a score. RewardRange bounds it; empty: any finite
	// number.
	External bool `json:"external,omitempty"`
}

// CollectCommand makes artifacts of what the agent has left.
type CollectCommand struct {
	Command string `json:"command"`

	// 0: a minute
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Limit is the time that the command may take.
func (c CollectCommand) Limit() time.Duration { return cmp.Or(c.Timeout, time.Minute) }

// CollectTime is the time that all commands of Collect may take.
func (v Verifier) CollectTime() time.Duration {
	var total time.Duration
	for _, c := range v.Collect {
		total += c.Limit()
	}

	return total
}

// Defined reports whether the work is graded.
func (v Verifier) Defined() bool { return v.Script != "" || len(v.Commands) > 0 || v.External }

// Live reports whether the agent's services go on while the work is graded.
func (v Verifier) Live() bool { return v.Grade == GradeLive }

// Shared reports whether the work is graded in the agent's own sandbox.
func (v Verifier) Shared() bool { return v.Grade == GradeShared }

// TestFiles are the script and the files of the verifier by their names in the tests folder, without those of FilesRef.
func (v Verifier) TestFiles() (map[string]string, error) {
	files := map[string]string{}
	if v.Script != "" {
		files[path.Base(TestScript)] = v.Script
	}

	for given, content := range v.Files {
		name, err := TestFileName(given)
		if err != nil {
			return nil, err
		}

		files[name] = content
	}

	return files, nil
}

// Range is the smallest and the largest reward that Script may write.
func (v Verifier) Range() (least, most float64) {
	if len(v.RewardRange) != 2 {
		return 0, 1
	}

	return v.RewardRange[0], v.RewardRange[1]
}

// maxAnyReward bounds a reward that may be any number. A 32-bit float holds its square.
const maxAnyReward = 1e18

// AnyReward is the RewardRange of a verifier that may write any number, as Harbor's do.
func AnyReward() []float64 { return []float64{-maxAnyReward, maxAnyReward} }

// Expected is the reward of no work and that of a solution: the ends of the range, or 0 and 1 where any number is a reward.
func (v Verifier) Expected() (least, most float64) {
	if slices.Equal(v.RewardRange, AnyReward()) {
		return 0, 1
	}

	return v.Range()
}

// MainReward returns the name of the rollout's reward among those in reward.json: RewardKey, or the first name of its list
// with commas that is there. Without RewardKey it is "reward", or the only one. false: there is none.
func (v Verifier) MainReward(all map[string]float64) (name string, ok bool) {
	names := append([]string{v.RewardKey}, strings.Split(v.RewardKey, ",")...)
	if v.RewardKey == "" {
		names = []string{"reward"}

		if len(all) == 1 {
			names = slices.Collect(maps.Keys(all))
		}
	}

	for _, name = range names {
		name = strings.TrimSpace(name)
		if _, ok = all[name]; ok {
			return name, true
		}
	}

	return "", false
}

// TestFileName is the name of a verifier's file relative to the tests folder. A name that leads out of it,
// or names no file, is Invalid.
func TestFileName(name string) (string, error) {
	clean := path.Clean(strings.TrimPrefix(name, TestsDir+"/"))
	switch {
	case name == "" || strings.HasSuffix(name, "/") || strings.ContainsRune(name, 0) || clean == ".":
		return "", fault.Field("test_files", "must have paths of files, got %q", name)
	case path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../"):
		return "", fault.Field("test_files",
			"must have paths relative to the tests folder, or absolute below %s; got %q",
			TestsDir, name)
	}

	return clean, nil
}

// Split separates the files that setup and the agent see from the verifier with all of its files: files
// that a client uploads below TestsDir belong to the verifier.
//
//workflowcheck:ignore
func (t Task) Split() (files map[string]string, v Verifier) {
	v = t.Verifier
	v.Files = maps.Clone(v.Files)
	files = map[string]string{}

	for name, text := range t.Files {
		full, err := FilePath(name)
		if err != nil || !strings.HasPrefix(full, TestsDir+"/") {
			files[name] = text
			continue
		}

		if v.Files == nil {
			v.Files = map[string]string{}
		}

		v.Files[full] = text
	}

	return files, v
}

// SplitUploads separates the uploads that setup and the agent see, by path below Home, from those of the
// verifier, by path below TestsDir. The task must be valid.
//
//workflowcheck:ignore
func (t Task) SplitUploads() (files, tests map[string]string) {
	files, tests = map[string]string{}, map[string]string{}

	for name, digest := range t.Uploads {
		full, _ := FilePath(name)
		if test, ok := strings.CutPrefix(full, TestsDir+"/"); ok {
			tests[test] = digest
			continue
		}

		files[strings.TrimPrefix(full, Home+"/")] = digest
	}

	return files, tests
}

// validate checks files in the order of their names: workflows call it, so it must be deterministic.
//
//workflowcheck:ignore
func (v Verifier) validate() error {
	if err := noneBlank("verify", v.Commands); err != nil {
		return err
	}

	if v.OnTimeout != "" && v.OnTimeout != TimeoutNull {
		return fault.Field("on_timeout", "must be %q or empty, got %q", TimeoutNull, v.OnTimeout)
	}

	if err := v.validGrade(); err != nil {
		return err
	}

	if err := v.validImage(); err != nil {
		return err
	}

	if err := validRange(v.RewardRange); err != nil {
		return err
	}

	if v.RewardKey != "" && v.Script == "" {
		return fault.Field("reward_key",
			"names a reward that test_script writes to reward.json: the task has no test_script")
	}

	if v.External && (v.Script != "" || len(v.Commands) > 0) {
		return fault.Field("verifier", "external means that a client grades: it excludes verify and test_script")
	}

	seen := map[string]string{}
	if v.Script != "" {
		seen[path.Base(TestScript)] = "test_script"
	}

	for _, given := range slices.Sorted(maps.Keys(v.Files)) {
		name, err := TestFileName(given)
		if err != nil {
			return err
		}

		if other, ok := seen[name]; ok {
			return fault.Field("test_files", "must have one name for each file: %q is also the file of %s",
				given, other)
		}

		seen[name] = given
	}

	return v.FilesRef.checkArchive("verifier.files_ref")
}

func (v Verifier) validGrade() error {
	switch {
	case v.Grade != "" && !slices.Contains(Grades(), v.Grade):
		return fault.Field("verifier.grade", "must be one of %q, got %q", Grades(), v.Grade)
	case (v.Live() || v.Shared()) && v.External:
		return fault.Field("verifier.grade", "external means that a client grades, in the agent's sandbox: it excludes %q", v.Grade)
	case v.Shared() && v.OnTimeout == TimeoutNull:
		return fault.Field("verifier.on_timeout", "the work can make the tests of grade: %s endless: must not be %q", GradeShared, TimeoutNull)
	}

	return nil
}

// Bounds of the artifacts of a task, and of the commands that make them.
const (
	maxArtifacts  = 16
	maxCollect    = 16
	maxCollecting = time.Hour

	// patterns of an artifact, and the bytes of one
	maxExclude = 64
	maxPattern = 256
)

func (v Verifier) validImage() error {
	const field = "verifier.image"

	switch {
	case v.Image == "" && len(v.Artifacts) > 0:
		return fault.Field("verifier.artifacts", "needs verifier.image: without it the verifier gets the whole work")
	case v.Image == "" && len(v.Exclude) > 0:
		return fault.Field("verifier.exclude", "needs verifier.image: without it the verifier gets the whole work")
	case v.Image == "" && len(v.Collect) > 0:
		return fault.Field("verifier.collect", "needs verifier.image: without it the verifier gets the whole work")
	case v.Image == "":
		return nil
	case v.External:
		return fault.Field(field, "external means that a client grades, in the agent's sandbox: it excludes an image")
	case v.Live() || v.Shared():
		return fault.Field(field, "the verifier gets artifacts alone: it excludes grade: %s", v.Grade)
	case len(v.Artifacts) > maxArtifacts:
		return fault.Field("verifier.artifacts", "must be at most %d, got %d", maxArtifacts, len(v.Artifacts))
	}

	for _, p := range v.Artifacts {
		if err := CheckArtifact("verifier.artifacts", p); err != nil {
			return err
		}
	}

	if err := v.validExclude(); err != nil {
		return err
	}

	return v.validCollect()
}

func (v Verifier) validExclude() error {
	for _, p := range slices.Sorted(maps.Keys(v.Exclude)) {
		field := fmt.Sprintf("verifier.exclude[%.100q]", p)

		switch patterns := v.Exclude[p]; {
		case !slices.Contains(v.Artifacts, p):
			return fault.Field(field, "must be one of verifier.artifacts")
		case len(patterns) > maxExclude:
			return fault.Field(field, "must have at most %d patterns, got %d", maxExclude, len(patterns))
		default:
			for _, p := range patterns {
				if _, err := pattern.Regexp(p, 0); strings.Trim(p, "/") == "" || len(p) > maxPattern || err != nil {
					return fault.Field(field, "must be patterns such as *.pyc of at most %d bytes, got %.100q", maxPattern, p)
				}
			}
		}
	}

	return nil
}

func (v Verifier) validCollect() error {
	if len(v.Collect) > maxCollect {
		return fault.Field("verifier.collect", "must be at most %d commands, got %d", maxCollect, len(v.Collect))
	}

	for n, c := range v.Collect {
		switch {
		case strings.TrimSpace(c.Command) == "":
			return fault.Field(fmt.Sprintf("verifier.collect[%d].command", n), "must not be empty")
		case c.Timeout < 0:
			return fault.Field(fmt.Sprintf("verifier.collect[%d].timeout_s", n), "must not be negative, got %g", c.Timeout.Seconds())
		}
	}

	if total := v.CollectTime(); total > maxCollecting {
		return fault.Field("verifier.collect", "must take at most %s in all, got %s", maxCollecting, total)
	}

	return nil
}

// Folders that each agent of Harbor has.
const (
	// PublishDir is where an agent may leave files for the verifier without being told.
	PublishDir = "/logs/artifacts"

	// LogDir is for logs of the agent, and for work where a task says so.
	LogDir = "/logs/agent"
)

// ImageWorkdir is the variable of a verifier that has the WORKDIR of its sandbox's image, if that names one.
const ImageWorkdir = "ROLLOUTD_IMAGE_WORKDIR"

// ownFolder reports whether a path is below a folder that each sandbox has for itself and that the work may write.
func ownFolder(p string) bool {
	return strings.HasPrefix(p, Home+"/") || strings.HasPrefix(p, TmpDir+"/")
}

// CheckArtifact refuses the path of an artifact at which no file may be put in a verifier's sandbox: a folder of the
// system, which holds the verifier's programs.
func CheckArtifact(field, p string) error {
	if p == TmpDir {
		return fault.Field(field, "must be a path below %s, which the verifier uses too", p)
	}

	if ownFolder(p) && path.Clean(p) == p && !strings.ContainsAny(p, "\x00\n") {
		return nil
	}

	if err := CheckGradePath(field, p); err != nil {
		return err
	}

	if path.Ext(p) != "" && CheckGradePath(field, path.Dir(p)) != nil {
		return fault.Field(field, "%s: a file must be in a folder such as /app: the verifier's programs are in %s", p, path.Dir(p))
	}

	return nil
}

// ArtifactFolder is the folder that a verifier's sandbox must share with the work for an artifact; "": none, each
// sandbox has one. It is false for a file in a folder of the system.
func ArtifactFolder(p string, isFolder bool) (string, bool) {
	if ownFolder(p) {
		return "", true
	}

	if !isFolder {
		p = path.Dir(p)
	}

	return p, CheckGradePath("", p) == nil
}

func validRange(r []float64) error {
	if len(r) == 0 {
		return nil
	}

	finite := func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
	if len(r) != 2 || !finite(r[0]) || !finite(r[1]) || r[0] >= r[1] {
		return fault.Field("reward_range", "must be [min, max] with min below max, got %v", r)
	}

	return nil
}

// UpdateScore is the name of the workflow update by which a client grades a rollout whose verifier is
// external; its argument is a Score.
const UpdateScore = "score"

// Score is the grade of a client. It is part of stored histories.
type Score struct {
	Score float64 `json:"score"`

	// further rewards by name
	Rewards map[string]float64 `json:"rewards,omitempty"`

	// Turns are sorted, see SortTurnRewards.
	Turns []TurnReward `json:"turns,omitempty"`
}

// Equal reports whether both are the same grade.
//
//workflowcheck:ignore
func (s Score) Equal(other Score) bool {
	return s.Score == other.Score && maps.Equal(s.Rewards, other.Rewards) && slices.Equal(s.Turns, other.Turns)
}

// CheckScore refuses a score that the verifier does not allow.
func (v Verifier) CheckScore(s Score) error {
	least, most := math.Inf(-1), math.Inf(1)
	if len(v.RewardRange) == 2 {
		least, most = v.RewardRange[0], v.RewardRange[1]
	}

	switch {
	case math.IsNaN(s.Score) || math.IsInf(s.Score, 0):
		return fault.Field("score", "must be a finite number, got %g", s.Score)
	case s.Score < least || s.Score > most:
		return fault.Field("score", "must be %g to %g (reward_range), got %g", least, most, s.Score)
	}

	if err := checkRewards("rewards", s.Rewards); err != nil {
		return err
	}

	return CheckTurnRewards("turns", s.Turns)
}
