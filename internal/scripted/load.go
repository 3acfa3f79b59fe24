package scripted

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

//go:embed demo.yaml
var demo []byte

// Default returns the scripts of the demo tasks in examples/, and a polite answer to anything else.
func Default() Scripts {
	scripts, err := Load(bytes.NewReader(demo))
	if err != nil {
		panic(fmt.Sprintf("embedded demo scripts: %v", err)) // a broken build, held off by a test
	}
	return scripts
}

// Load reads YAML: one script, or a list of scripts. It reports every problem it finds, each with its place.
func Load(r io.Reader) (Scripts, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	scripts, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	if err := scripts.Validate(); err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	return scripts, nil
}

func decode(text []byte) (Scripts, error) {
	var shape yaml.Node
	if err := yaml.Unmarshal(text, &shape); err != nil {
		return nil, err
	}
	if len(shape.Content) == 0 {
		return nil, errors.New("empty: want one script (name, match, turns) or a list of them")
	}
	var scripts Scripts
	var err error
	if shape.Content[0].Kind == yaml.SequenceNode {
		err = strict(text, &scripts)
	} else {
		scripts = make(Scripts, 1)
		err = strict(text, &scripts[0])
	}
	return scripts, err
}

func strict(text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("more than one YAML document: put the scripts into one list")
	}
	return nil
}
