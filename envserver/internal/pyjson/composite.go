package pyjson

func (d *decoder) array(depth int) (any, error) {
	// [
	d.pos++
	out := []any{}

	d.space()

	if d.peek() == ']' {
		d.pos++
		return out, nil
	}

	for {
		d.space()

		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}

		out = append(out, v)

		d.space()

		switch d.peek() {
		case ',':
			d.pos++
		case ']':
			d.pos++
			return out, nil
		default:
			return nil, d.fail(d.pos, "expected ',' or ']'")
		}
	}
}

func (d *decoder) object(depth int) (any, error) {
	// {
	d.pos++
	out := map[string]any{}

	d.space()

	if d.peek() == '}' {
		d.pos++
		return out, nil
	}

	for {
		d.space()

		key, err := d.key()
		if err != nil {
			return nil, err
		}

		if out[key], err = d.value(depth + 1); err != nil {
			return nil, err
		}

		d.space()

		switch d.peek() {
		case ',':
			d.pos++
		case '}':
			d.pos++
			return out, nil
		default:
			return nil, d.fail(d.pos, "expected ',' or '}'")
		}
	}
}

// key reads a property name and its colon, up to the value.
func (d *decoder) key() (string, error) {
	if d.peek() != '"' {
		return "", d.fail(d.pos, "expected a name in double quotes")
	}

	key, err := d.str()
	if err != nil {
		return "", err
	}

	d.space()

	if d.peek() != ':' {
		return "", d.fail(d.pos, "expected ':'")
	}

	d.pos++
	d.space()

	return key, nil
}
