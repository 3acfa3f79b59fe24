package wire

// Name reports whether s is 1 to most letters, digits, '.', '_' or '-', the first a letter or digit. A
// regular expression with such a bound would take some hundred KiB of every sandboxd.
func Name(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}

	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}

	return true
}
