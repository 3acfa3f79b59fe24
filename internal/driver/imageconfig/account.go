package imageconfig

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const (
	// maxAccounts bounds /etc/passwd and /etc/group of an image, in bytes.
	maxAccounts = 1 << 20
	// maxGroups bounds the groups of a user.
	maxGroups = 64
	// maxID is the highest possible id of an image.
	maxID = 1<<16 - 1
)

// AccountOf finds a user of an image as a container engine would: a name or an id, with an optional group. "" is root.
func AccountOf(use *image.Use, user string) (wire.Account, error) {
	if user == "" {
		return wire.Account{}, nil
	}

	a, err := accountOf(Stored(use), user)
	if a == nil || err != nil {
		return wire.Account{}, err
	}

	return *a, nil
}

// accountOf finds the agent's user in the image, as a container engine would: a name or an id, with an
// optional group; without one it takes the user's groups in the image. An image without a user means root.
// nil: the user 1000.
func accountOf(use *Image, user string) (*wire.Account, error) {
	switch user {
	case "":
		return nil, nil //nolint:nilnil // no user of the image, no error
	case rollout.UserRoot:
		return &wire.Account{}, nil
	case rollout.UserOfImage:
		if user = use.User; user == "" {
			return &wire.Account{}, nil
		}

		if !rollout.IsAccount(user) {
			return nil, fault.Field("user", "the user of the image must be a name or an id, got %.100q", user)
		}
	}

	passwd, err := records(use, "/etc/passwd")
	if err != nil {
		return nil, err
	}

	groups, err := records(use, "/etc/group")
	if err != nil {
		return nil, err
	}

	a, err := resolve(passwd, groups, user)
	if err != nil {
		return nil, err
	}

	return &a, check(a)
}

// records reads the lines of an account file: name, password, id and so on.
func records(use *Image, path string) ([][]string, error) {
	data, err := use.Files.ReadFile(path, maxAccounts)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case fault.Is(err, fault.Invalid):
		return nil, fault.Field("user", "%v", err)
	case err != nil:
		return nil, fault.Wrap(fault.Unavailable, err, "accounts of the image")
	}

	var all [][]string

	for line := range strings.SplitSeq(string(data), "\n") {
		if fields := strings.Split(line, ":"); len(fields) > 3 && fields[0] != "" {
			all = append(all, fields)
		}
	}

	return all, nil
}

func resolve(passwd, groups [][]string, user string) (wire.Account, error) {
	name, group, withGroup := strings.Cut(user, ":")

	var a wire.Account

	found := find(passwd, name)
	switch id, err := strconv.Atoi(name); {
	case found != nil:
		if a.UID, err = number(found[2], "user", name); err != nil {
			return a, err
		}

		if a.GID, err = number(found[3], "group of user", name); err != nil {
			return a, err
		}

		name = found[0]
	case err != nil:
		return a, fault.Field("user", "%q is not in /etc/passwd of the image", name)
	default:
		a.UID = id
	}

	if !withGroup {
		var err error

		a.Groups, err = groupsOf(groups, name)

		return a, err
	}

	found = find(groups, group)

	id, err := strconv.Atoi(group)
	switch {
	case found != nil:
		id, err = number(found[2], "group", group)
	case err != nil:
		err = fault.Field("user", "group %q is not in /etc/group of the image", group)
	}

	a.GID = id

	return a, err
}

// find returns the first record of that name, else of that id.
func find(records [][]string, name string) []string {
	for _, field := range []int{0, 2} {
		if n := slices.IndexFunc(records, func(r []string) bool { return r[field] == name }); n >= 0 {
			return records[n]
		}
	}

	return nil
}

// groupsOf returns the groups that list the user.
func groupsOf(groups [][]string, name string) ([]int, error) {
	var all []int

	for _, r := range groups {
		if !slices.Contains(strings.Split(r[3], ","), name) {
			continue
		}

		id, err := number(r[2], "group", r[0])
		if err != nil {
			return nil, err
		}

		all = append(all, id)
	}

	slices.Sort(all)

	return slices.Compact(all), nil
}

func number(digits, what, name string) (int, error) {
	id, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fault.Field("user", "the id of %s %.50q in the image must be a number, got %.50q", what, name, digits)
	}

	return id, nil
}

// check refuses ids that the image's files cannot have, and the ids of sandboxd and the verifier.
func check(a wire.Account) error {
	if len(a.Groups) > maxGroups {
		return fault.Field("user", "is in %d groups of the image; the maximum is %d", len(a.Groups), maxGroups)
	}

	for _, id := range append([]int{a.UID, a.GID}, a.Groups...) {
		switch {
		case id < 0 || id > maxID:
			return fault.Field("user", "has the id %d in the image; ids go from 0 to %d", id, maxID)
		case id == wire.SupervisorID || id == wire.ImageVerifierID:
			return fault.Field("user", "has the id %d in the image, which the sandbox reserves", id)
		}
	}

	return nil
}

// HomeOf returns the home of a user id in the image; "/" without one.
func HomeOf(use *image.Use, uid int) string {
	passwd, err := records(Stored(use), "/etc/passwd")
	if err != nil {
		passwd = nil
	}

	for _, r := range passwd {
		if len(r) > 5 && r[2] == strconv.Itoa(uid) && strings.HasPrefix(r[5], "/") {
			return r[5]
		}
	}

	if uid == 0 {
		return "/root"
	}

	return "/"
}
