package command

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Folders of agents inside a sandbox: the mount of the host's folder, and the place of a copy if there is no mount.
const (
	mountedDir  = "/opt/rolloutd/agents/"
	uploadedDir = "/tmp/.rolloutd/"
)

const (
	checkProcess = "agent-check"
	checkTimeout = time.Minute
)

// installs reports whether the agent has a folder; without one its program is part of the image.
func (a *Agent) installs() bool { return a.Package != "" || a.Folder != "" }

// Install implements agent.Installer. It makes a missing folder on this host, and uploads it if the sandbox
// has no mount.
func (a *Agent) Install(ctx context.Context, env agent.Env) (string, error) {
	summary, dir := a.Name+" is part of the image", ""
	if a.installs() {
		from, err := a.Fetch(ctx)
		if err != nil {
			return "", err
		}

		if dir, err = a.locate(ctx, env.Sandbox); err != nil {
			return "", err
		}

		how := "mounted"
		if dir == "" {
			dir, how = uploadedDir+a.folder(), "uploaded"
			if err := upload(ctx, env.Sandbox, from, dir); err != nil {
				return "", fault.Wrap(fault.KindOf(err), err, "upload %s", a.Name)
			}
		}

		summary = fmt.Sprintf("%s, %s at %s", a.source(), how, dir)
	}

	if len(a.Check) == 0 {
		return summary, nil
	}

	out, err := a.check(ctx, env.Sandbox, dir)

	return summary + "\n" + out, err
}

// locate finds the agent's folder inside the sandbox, or returns "".
func (a *Agent) locate(ctx context.Context, sb agent.Sandbox) (string, error) {
	if !a.installs() {
		return "", nil
	}

	for _, parent := range []string{mountedDir, uploadedDir} {
		_, err := sb.ReadFile(ctx, parent+a.folder()+"/"+completeFile, 4096)
		if err == nil {
			return parent + a.folder(), nil
		}

		if !fault.Is(err, fault.NotFound) {
			return "", fault.Wrap(fault.KindOf(err), err, "look for %s in the sandbox", a.Name)
		}
	}

	return "", nil
}

// upload copies a folder. completeFile is last, because locate takes its presence as the mark of a complete folder.
func upload(ctx context.Context, sb agent.Sandbox, from, to string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)

	go func() {
		err := pack(w, from)
		w.CloseWithError(err)

		packed <- err
	}()

	err := sb.PutTar(ctx, to, r)
	// ends pack if PutTar failed
	_ = r.CloseWithError(io.ErrClosedPipe)

	if packErr := <-packed; err == nil {
		err = packErr
	}

	if err != nil {
		return err
	}

	return sb.WriteFile(ctx, to+"/"+completeFile, strings.NewReader("{}\n"), 0o644)
}

// pack writes a folder as a tar, without completeFile.
func pack(w io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	t := tar.NewWriter(w)
	if err := t.AddFS(withoutComplete{root.FS()}); err != nil {
		return err
	}

	return t.Close()
}

// check runs the install check, once per sandbox.
func (a *Agent) check(ctx context.Context, sb agent.Sandbox, dir string) (string, error) {
	p := a.inSandbox(dir, a.filler(dir, agent.Job{}), a.Check)
	p.TimeoutMillis = checkTimeout.Milliseconds()

	st, err := sb.Start(ctx, checkProcess, p)
	if err == nil {
		st, err = sb.Wait(ctx, checkProcess, checkTimeout)
	}

	if err != nil {
		return "", fault.Wrap(fault.KindOf(err), err, "check %s", a.Name)
	}

	var text []byte

	for _, stream := range []string{"stdout", "stderr"} {
		part, err := sb.Tail(ctx, st, stream, 500)
		if err != nil {
			return "", err
		}

		text = append(text, part...)
	}

	out := strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")
	if st.Running || st.ExitCode != 0 {
		return "", fault.New(fault.Invalid, "%s does not run in this sandbox: %s exited with code %d: %s",
			a.Name, strings.Join(p.Argv, " "), st.ExitCode, out)
	}

	return out, nil
}
