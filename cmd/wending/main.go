// Command wending is the whole product: web, workers, and the servers they need.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules have time zones, and not every image contains the time zone database

	"github.com/alecthomas/kong"
	"github.com/joho/godotenv"
)

// commands are the program's subcommands, with the settings that all of them share.
type commands struct {
	Settings

	Up          upCommand          `cmd:"" help:"Run everything: web pages, workers, and PostgreSQL and Redis if their URLs are not set."`
	Serve       serveCommand       `cmd:"" help:"Run the web pages and the API."`
	Worker      workerCommand      `cmd:"" help:"Run a worker."`
	Eval        evalCommand        `cmd:"" help:"Run an evaluation from a file to gate a release; exits with 0 if it passed, 1 if it is below a limit, 2 if it could not run."`
	Import      importCommand      `cmd:"" help:"Import existing answers into a server as a finished task."`
	Migrate     migrateCommand     `cmd:"" help:"Update the database schema."`
	Backup      backupCommand      `cmd:"" help:"Write the database, the uploads and the generated key to one file, even while Wending is running."`
	Restore     restoreCommand     `cmd:"" help:"Restore a backup into an empty database and data folder."`
	RotateKey   rotateKeyCommand   `cmd:"" help:"Encrypt all secrets with a new key: SECRET_KEY, or a key generated in the data folder."`
	User        userCommand        `cmd:"" help:"Create, change or disable accounts."`
	Token       tokenCommand       `cmd:"" help:"Create tokens for programs."`
	Audit       auditCommand       `cmd:"" help:"Check that no audit entry was changed or removed."`
	DemoAgent   demoAgentCommand   `cmd:"" help:"Run a small demo agent with unstable answers."`
	Doctor      doctorCommand      `cmd:"" help:"Check the settings, database, key, Redis, stores and network, and say what to do; exits with 1 if a check failed."`
	Healthcheck healthcheckCommand `cmd:"" help:"Check the server's health; exits with 0 if it is healthy."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runLogging(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr, catchOthers)
	stop()
	os.Exit(code)
}

// run parses the command line and the environment, and runs one subcommand until it is done or ctx ends.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	return runLogging(ctx, args, getenv, stdout, stderr, func(*slog.Logger) {})
}

// runLogging is like run, but first calls logsTo with the log that the settings describe.
func runLogging(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer,
	logsTo func(*slog.Logger)) int {
	file, err := godotenv.Read()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		_, _ = fmt.Fprintln(stderr, "wending: .env cannot be read:", err)
		return 2
	}
	lookup := func(name string) string {
		if text := getenv(name); text != "" {
			return text
		}
		return file[name]
	}
	var cli commands
	exited := -1
	parser, err := kong.New(&cli, kong.Name("wending"), kong.UsageOnError(),
		kong.Description(
			"Measures how stable and how good an LLM agent's answers are. Every setting is a flag or an environment variable "+
				"(also read from .env)."),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { exited = code }), kong.Resolvers(environment(lookup)))
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "wending:", err)
		return 2
	}
	chosen, err := parser.Parse(args)
	if exited >= 0 { // --help was requested
		return exited
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "wending:", err)
		return 2
	}
	chosen.BindTo(ctx, (*context.Context)(nil))
	chosen.BindTo(stdout, (*io.Writer)(nil))
	log := newLogger(stderr, cli.Settings)
	logsTo(log)
	return exitCode(ctx, chosen.Run(&cli.Settings, log, errorWriter{stderr}), log, cli.LogFormat, stderr)
}

// exitCode prints the error with which a command ended, and returns the program's exit code.
func exitCode(ctx context.Context, err error, log *slog.Logger, format string, stderr io.Writer) int {
	exit := (*exitError)(nil)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		_, _ = fmt.Fprintln(stderr, "wending:", err)
		return exit.code
	case errors.Is(err, errStopped):
		log.InfoContext(ctx, errStopped.Error())
		return 0
	case format == "json":
		log.ErrorContext(ctx, "wending ended with an error", "error", err)
		return 1
	}
	_, _ = fmt.Fprintln(stderr, "wending:", err)
	return 1
}

// errorWriter is where errors and progress are printed.
type errorWriter struct{ io.Writer }

// isTerminal reports whether the writer is a terminal, where a person may be watching.
func (w errorWriter) isTerminal() bool {
	file, isFile := w.Writer.(*os.File)
	if !isFile {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// environment sets flags from the environment variables that their "from" tags name.
func environment(lookup func(string) string) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if name := flag.Tag.Get("from"); name != "" {
			if text := lookup(name); text != "" {
				return text, nil
			}
		}
		return nil, nil
	})
}
