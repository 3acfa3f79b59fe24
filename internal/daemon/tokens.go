package daemon

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/input/yamlinput"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// tokenEntry is one item of a tokens file.
type tokenEntry struct {
	Name string `yaml:"name"`

	// digest of the token, in hex: printf %s "$TOKEN" | sha256sum
	SHA256 string `yaml:"sha256"`

	// client or operator
	Scope envserver.Scope `yaml:"scope"`
	// Max bounds a sandbox of this client below the backend's own bound; zero fields do not.
	Max rollout.Resources `yaml:"max"`
	// Share is the part of the server's sessions that this client may have; 0: serve.token_share.
	Share float64 `yaml:"share"`
}

// tokens returns the tokens of the settings and of the tokens file.
func (d *Daemon) tokens() ([]envserver.Token, error) {
	var all []envserver.Token
	for _, text := range d.cfg.Serve.Tokens {
		all = append(all, envserver.PlainToken(text))
	}

	if d.cfg.Serve.TokensFile == "" {
		return all, nil
	}

	f, err := os.Open(d.cfg.Serve.TokensFile)
	if err != nil {
		return nil, fmt.Errorf("serve.tokens_file: %w", err)
	}
	defer f.Close()

	listed, err := readTokens(f)
	if err != nil {
		return nil, fmt.Errorf("serve.tokens_file %s: %w", d.cfg.Serve.TokensFile, err)
	}

	return append(all, listed...), nil
}

// maxTokenName bounds the name of a token, in bytes.
const maxTokenName = 100

// readTokens reads a YAML list of tokens. An empty list is an error, since it would open the server to everyone.
func readTokens(r io.Reader) ([]envserver.Token, error) {
	var entries []tokenEntry

	dec := yaml.NewDecoder(r)
	dec.KnownFields(true)

	if err := dec.Decode(&entries); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlinput.File{Type: reflect.TypeFor[[]tokenEntry](), Noun: "a token", Secret: true}.Explain(err)
	}

	if len(entries) == 0 {
		return nil, errors.New("must have at least one token")
	}

	var out []envserver.Token

	seen := map[string]bool{}

	for i, e := range entries {
		sum, err := hex.DecodeString(e.SHA256)
		switch {
		case e.Name == "" || seen[e.Name]:
			return nil, fmt.Errorf("[%d].name: must be a unique name, got %q", i, e.Name)
		case len(e.Name) > maxTokenName || strings.ContainsFunc(e.Name, unicode.IsControl):
			// it is the value of a search attribute
			return nil, fmt.Errorf("[%d].name: must be at most %d bytes without control characters, got %q",
				i, maxTokenName, e.Name)
		case err != nil || len(sum) != 32:
			return nil, fmt.Errorf("[%d].sha256: must be the 64 hex digits of the token's SHA-256", i)
		case e.Max.CPU < 0 || e.Max.MemoryMiB < 0 || e.Max.DiskMiB < 0:
			return nil, fmt.Errorf(
				"[%d].max: cpu, memory_mib and disk_mib must be 0 (no bound) or more, got %g, %d and %d",
				i,
				e.Max.CPU,
				e.Max.MemoryMiB,
				e.Max.DiskMiB,
			)
		case e.Share < 0 || e.Share > 1:
			return nil, fmt.Errorf("[%d].share: must be between 0 (serve.token_share) and 1, got %g", i, e.Share)
		case e.Scope != envserver.ScopeClient && e.Scope != envserver.ScopeOperator:
			return nil, fmt.Errorf("[%d].scope: must be client or operator, got %q", i, e.Scope)
		}

		seen[e.Name] = true
		out = append(out, envserver.Token{
			Name:       e.Name,
			SHA256:     [32]byte(sum),
			Scope:      e.Scope,
			MaxSandbox: e.Max,
			Share:      e.Share,
		})
	}

	return out, nil
}
