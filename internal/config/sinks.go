package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Kinds of sinks.
const (
	SinkAtropos    = "atropos"
	SinkTrainerAPI = "trainer_api"
	SinkFiles      = "files"
	SinkPull       = "pull"
)

// Sink is where finished groups are delivered; docs/sinks.md explains the settings.
type Sink struct {
	Kind string `yaml:"kind"`
	// Partial delivers groups in which a rollout has no reward or no token to train on.
	Partial bool `yaml:"partial"`
	// Sequences is "one" (the sequence of each rollout that has the most tokens to train on) or "all";
	// empty: the kind's default.
	Sequences string `yaml:"sequences"`

	// "drop" (default) or "separate"
	Subagents string `yaml:"subagents"`

	// "drop" (default) or "train"
	Summaries string `yaml:"summaries"`

	// Of the kinds atropos, trainer_api and pull.
	URL string `yaml:"url"`

	// bearer token; empty: none
	Token string `yaml:"token"`
	// TokenEnv is the variable that has the token, so that the configuration has no secret.
	TokenEnv string `yaml:"token_env"`

	// the token could not be read; nil: it could, or there is none
	Missing error `yaml:"-"`
	// MaxBatchesOffPolicy bounds the batches that wait for the trainer: with more there is no room. 0: 2.
	MaxBatchesOffPolicy float64 `yaml:"max_batches_offpolicy"`
	// GroupSize is the number of sequences of a group.
	GroupSize int `yaml:"group_size"`

	// Of the kind atropos: what register-env sends.
	// empty: the sink's name
	Name           string `yaml:"name"`
	MaxTokenLength int    `yaml:"max_token_length"`

	// 0: 1
	Weight             float64  `yaml:"weight"`
	MinBatchAllocation *float64 `yaml:"min_batch_allocation"`

	// Of the kind files.
	Path string `yaml:"path"`

	// "jsonl" (default) or "parquet"
	Format string `yaml:"format"`

	// groups of a file; 0: 1
	ShardGroups int `yaml:"shard_groups"`

	// a file is closed with fewer groups after this time; 0: 10m
	ShardAge time.Duration `yaml:"shard_age"`

	// Of the kind pull.
	// empty: the sink's name
	Queue string `yaml:"queue"`
	// MaxWaiting is how many groups may wait to be pulled until there is no room; 0: any number.
	MaxWaiting int `yaml:"max_waiting"`
}

// sinkTokens reads the tokens that the configuration names. One that is missing is an error of the role that delivers.
func (c *Config) sinkTokens(env Environ) {
	for name, s := range c.Sinks {
		switch {
		case s.TokenEnv == "":
			continue
		case s.Token != "":
			s.Missing = fmt.Errorf("sinks.%s: must have only one of token and token_env", name)
		case env[s.TokenEnv] == "":
			s.Missing = fmt.Errorf("sinks.%s.token_env: the variable %s is not set", name, s.TokenEnv)
		}

		s.Token = env[s.TokenEnv]
		c.Sinks[name] = s
	}
}

// OneSequence reports whether the sink takes one sequence of each rollout.
func (s Sink) OneSequence() bool {
	if s.Sequences == "" {
		return s.Kind == SinkAtropos || s.Kind == SinkTrainerAPI
	}

	return s.Sequences == "one"
}

func (c Config) validateSinks(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.Sinks)) {
		path := "sinks." + name
		err := rollout.CheckSink(name)
		p.check(err == nil, path, "%v", err)
		c.Sinks[name].validate(p, path)
	}
}

func (s Sink) validate(p *problems, path string) {
	kinds := []string{SinkAtropos, SinkTrainerAPI, SinkFiles, SinkPull}
	p.check(slices.Contains(kinds, s.Kind), path+".kind",
		"must be one of %s; got %q", strings.Join(kinds, ", "), s.Kind)
	p.oneOf(path+".sequences", s.Sequences, "", "one", "all")
	p.oneOf(path+".subagents", s.Subagents, "", "drop", "separate")
	p.oneOf(path+".summaries", s.Summaries, "", "drop", "train")
	p.oneOf(path+".format", s.Format, "", "jsonl", "parquet")

	switch s.Kind {
	case SinkAtropos, SinkTrainerAPI:
		p.httpURL(path+".url", s.URL)
		p.check(s.GroupSize > 0, path+".group_size",
			"must be the number of sequences of a group, at least 1, got %d", s.GroupSize)
		p.check(s.Kind != SinkAtropos || s.MaxTokenLength > 0, path+".max_token_length",
			"must be the length of the longest sequence in tokens, at least 1, got %d", s.MaxTokenLength)
		p.check(s.MaxBatchesOffPolicy >= 0 && s.MaxBatchesOffPolicy < 1e6, path+".max_batches_offpolicy",
			"must be 0 (the default, 2) or more and less than 1e6, got %g", s.MaxBatchesOffPolicy)
		p.check(s.Weight >= 0 && s.Weight < 1e6, path+".weight",
			"must be 0 (the default, 1) or more and less than 1e6, got %g", s.Weight)
		m := s.MinBatchAllocation
		p.check(m == nil || *m >= 0 && *m <= 1, path+".min_batch_allocation", "must be a share from 0 to 1")
	case SinkPull:
		p.httpURL(path+".url", s.URL)
		p.check(s.MaxWaiting >= 0, path+".max_waiting", "must be 0 (any number) or more groups, got %d", s.MaxWaiting)
		p.check(s.Queue == "" || rollout.CheckSink(s.Queue) == nil, path+".queue",
			"must be 1 to 40 letters, digits, '_' or '-', beginning with a letter or digit, got %q", s.Queue)
	case SinkFiles:
		p.check(s.Path != "", path+".path", "must be the path of a folder")
		p.check(s.ShardGroups >= 0, path+".shard_groups", "must be 0 (the default, 1) or more, got %d", s.ShardGroups)
		p.check(s.ShardAge >= 0, path+".shard_age", "must be 0 (the default, 10m) or more, got %s", s.ShardAge)
	}
}

func (p *problems) oneOf(path, got string, values ...string) {
	p.check(slices.Contains(values, got), path,
		"must be %s, got %q", strings.Join(slices.DeleteFunc(values, func(s string) bool { return s == "" }), " or "),
		got)
}
