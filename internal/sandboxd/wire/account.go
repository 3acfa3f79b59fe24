package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Account is a user of an image.
type Account struct {
	UID, GID int

	// further groups
	Groups []int
}

// VerifierID returns the verifier's user and group beside an agent that is this user; nil is the user
// AgentID. Only that user and plain root certainly lack the id VerifierID and that group.
func (a *Account) VerifierID() int {
	if a == nil || a.UID == 0 && a.GID == 0 && len(a.Groups) == 0 {
		return VerifierID
	}

	return ImageVerifierID
}

// String returns the form that ParseAccount reads: uid:gid:group,group.
func (a Account) String() string {
	groups := make([]string, len(a.Groups))
	for n, g := range a.Groups {
		groups[n] = strconv.Itoa(g)
	}

	return fmt.Sprintf("%d:%d:%s", a.UID, a.GID, strings.Join(groups, ","))
}

// ParseAccount parses the form of String.
func ParseAccount(text string) (Account, error) {
	fields := strings.Split(text, ":")
	if len(fields) != 3 {
		return Account{}, fmt.Errorf("must be uid:gid:groups, got %q", text)
	}

	a := Account{}

	var err error
	if a.UID, err = strconv.Atoi(fields[0]); err != nil {
		return a, err
	}

	if a.GID, err = strconv.Atoi(fields[1]); err != nil {
		return a, err
	}

	for digits := range strings.SplitSeq(fields[2], ",") {
		if digits == "" {
			continue
		}

		g, err := strconv.Atoi(digits)
		if err != nil {
			return a, err
		}

		a.Groups = append(a.Groups, g)
	}

	return a, nil
}
