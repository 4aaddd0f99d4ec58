package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// ciFiles is the folder of the files for continuous integration.
const ciFiles = "../gate/ci"

// readYAML reads the last document of a YAML file.
func readYAML(t *testing.T, path string, into ...any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(ciFiles, path))
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for _, one := range into {
		require.NoError(t, decoder.Decode(one), path)
	}
	require.ErrorIs(t, decoder.Decode(&struct{}{}), io.EOF, path)
}

// released serves a release whose program writes its arguments, one per line, and the file that --markdown names.
func released(t *testing.T) string {
	t.Helper()
	name := "wending-v9-linux-" + runtime.GOARCH
	const program = "#!/bin/sh\nprintf '%s\\n' \"$@\" > arguments\necho '| a |' > wending.md\nexit 1\n"
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: name + "/wending", Mode: 0o755, Size: int64(len(program))}))
	_, err := io.WriteString(archive, program)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	require.NoError(t, zipped.Close())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/" + name + ".tar.gz":
			_, _ = w.Write(packed.Bytes())
		case "/SHA256SUMS":
			_, _ = fmt.Fprintf(w, "%x  %s.tar.gz\n%x  other.tar.gz\n", sha256.Sum256(packed.Bytes()), name, sha256.Sum256(nil))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// shell runs a script as a CI job does, and returns its output; isFine is whether it must succeed.
func shell(t *testing.T, folder, script string, environment map[string]string, isFine bool) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), bash, "-eo", "pipefail", "-c", script)
	command.Dir = folder
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder}
	for name, value := range environment {
		command.Env = append(command.Env, name+"="+value)
	}
	output, err := command.CombinedOutput()
	require.Equal(t, isFine, err == nil, "%v: %s", err, output)
	return string(output)
}

// evaluated requires that a job called `wending eval`, and returns the arguments that it passed.
func evaluated(t *testing.T, folder string) evalCommand {
	t.Helper()
	arguments, err := os.ReadFile(filepath.Join(folder, "arguments"))
	require.NoError(t, err)
	var parsed commands
	parser, err := kong.New(&parsed, kong.Name("wending"))
	require.NoError(t, err)
	chosen, err := parser.Parse(strings.Split(strings.TrimSuffix(string(arguments), "\n"), "\n"))
	require.NoError(t, err, "%s", arguments)
	require.Equal(t, "eval", chosen.Command())
	return parsed.Eval
}

// action is a composite action of GitHub.
type action struct {
	Inputs map[string]struct {
		Required bool
		Default  *string
	}
	Runs struct {
		Using string
		Steps []struct {
			Name, Shell, Run, Uses string
			Env                    map[string]string
		}
	}
}

var ofInput = regexp.MustCompile(`^\$\{\{ inputs\.(\w+) \}\}$`)

// The action for GitHub and its example match; its steps install the program, refuse one that was changed, and pass
// arguments that the program accepts.
func TestTheActionForGitHubRunsAnEvaluation(t *testing.T) {
	t.Parallel()
	var made action
	readYAML(t, "github/action.yml", &made)
	require.Equal(t, "composite", made.Runs.Using)
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Uses string
				With map[string]string
			}
		}
	}
	readYAML(t, "github/workflow.yml", &workflow)
	steps := workflow.Jobs["evaluate"].Steps
	used := steps[len(steps)-1]
	require.Equal(t, "./.github/actions/wending", used.Uses)
	for name, input := range made.Inputs {
		require.Equal(t, input.Required, input.Default == nil, name)
		require.True(t, !input.Required || used.With[name] != "", name)
	}
	for name := range used.With {
		require.Contains(t, made.Inputs, name)
	}

	for server, isLocal := range map[string]bool{"": true, "http://127.0.0.1:1": false} {
		folder := t.TempDir()
		inputs := map[string]string{"download": released(t), "version": "v9", "file": "my task.yaml", "server": server,
			"token": "wnd_X", "baseline": "0f1e:2", "arguments": "--fail-under agreement=0.8 --require-fit"}
		path := os.Getenv("PATH")
		for _, step := range made.Runs.Steps[:2] {
			require.Equal(t, "bash", step.Shell)
			environment := map[string]string{"GITHUB_PATH": filepath.Join(folder, "path"), "PATH": path, "FOLDER": folder}
			for name, value := range step.Env {
				if input := ofInput.FindStringSubmatch(value); input != nil {
					require.Contains(t, made.Inputs, input[1])
					environment[name] = inputs[input[1]]
				}
			}
			shell(t, folder, step.Run, environment, step.Name == "Install Wending")
			added, err := os.ReadFile(filepath.Join(folder, "path"))
			require.NoError(t, err)
			path = strings.TrimSpace(string(added)) + ":" + path
		}
		command := evaluated(t, folder)
		require.Equal(t, evalCommand{File: "my task.yaml", Local: isLocal, Wait: !isLocal, Baseline: "0f1e:2",
			FailUnder: []string{"agreement=0.8"}, RequireFit: true, JUnit: "wending.xml", Markdown: "wending.md",
			Out: "wending.html", Server: "http://127.0.0.1:8080"}, command)
	}
	install := made.Runs.Steps[0].Run
	output := shell(t, t.TempDir(), "curl() { command curl \"$@\" && echo changed >> wending-v9-*.tar.gz; }\n"+install,
		map[string]string{"DOWNLOAD": released(t), "VERSION": "v9", "FOLDER": t.TempDir(), "GITHUB_PATH": "path"}, false)
	require.Contains(t, output, "FAILED", "a changed archive is not installed")
}

// The component for GitLab and its example match; its job installs the program, passes arguments that the program
// accepts, and comments on the merge request even if the evaluation failed.
func TestTheComponentForGitLabRunsAnEvaluation(t *testing.T) {
	t.Parallel()
	var head struct {
		Spec struct {
			Inputs map[string]struct{ Default *string }
		}
	}
	var jobs map[string]struct {
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
		AfterScript  []string `yaml:"after_script"`
	}
	readYAML(t, "gitlab/component.yml", &head, &jobs)
	var pipeline struct {
		Include []struct{ Inputs map[string]string }
		Wending struct{ Rules []any }
	}
	readYAML(t, "gitlab/pipeline.yml", &pipeline)
	given := pipeline.Include[0].Inputs
	for name, input := range head.Spec.Inputs {
		require.True(t, input.Default != nil || given[name] != "", name)
	}
	for name := range given {
		require.Contains(t, head.Spec.Inputs, name)
	}
	require.NotEmpty(t, pipeline.Wending.Rules)

	var comment string
	gitlab := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("PRIVATE-TOKEN") == "glpat" && r.URL.Path == "/projects/7/merge_requests/3/notes" {
			comment = r.PostFormValue("body")
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer gitlab.Close()
	job, folder := jobs["wending"], t.TempDir()
	given = map[string]string{"download": released(t), "version": "v9", "file": "task.yaml",
		"server": "http://127.0.0.1:1", "baseline": "", "arguments": "--require-proof"}
	environment := map[string]string{"WENDING_COMMENT_TOKEN": "glpat", "CI_API_V4_URL": gitlab.URL, "CI_PROJECT_ID": "7",
		"CI_MERGE_REQUEST_IID": "3"}
	for name, value := range job.Variables {
		input := strings.TrimSuffix(strings.TrimPrefix(value, "$[[ inputs."), " ]]")
		require.Contains(t, head.Spec.Inputs, input)
		environment[name] = given[input]
	}
	shell(t, folder, strings.Join(append(job.BeforeScript, job.Script...), "\n"), environment, false)
	command := evaluated(t, folder)
	require.Equal(t, evalCommand{File: "task.yaml", Wait: true, RequireProof: true, JUnit: "wending.xml",
		Markdown: "wending.md", Out: "wending.html", Server: "http://127.0.0.1:8080"}, command)
	shell(t, folder, strings.Join(job.AfterScript, "\n"), environment, true)
	require.Equal(t, "| a |\n", comment)
}
