package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"wending/cmd/gate"
)

// importCommand imports existing answers into a server as a finished task.
type importCommand struct {
	File   string            `arg:"" help:"Answers: CSV, XLSX or JSONL, promptfoo results, or a log of Inspect (.eval or .json) or OpenAI Evals."`
	Name   string            `placeholder:"NAME" help:"Name of the task; by default the file's name without its extension."`
	Format string            `default:"auto" help:"Format of the file: auto, csv, xlsx, jsonl, promptfoo, inspect or openai-evals."`
	Column map[string]string `placeholder:"question=NAME" help:"Column to use as question, answer, question_id, run, standard_answer or variant, for tables with other column names. May be repeated."`
	Server string            `from:"WENDING_SERVER" default:"http://127.0.0.1:8080" help:"Server to import into ($WENDING_SERVER)."`
	Token  string            `from:"WENDING_TOKEN" placeholder:"wnd_…" help:"Token, if the server requires sign-in; set it in the environment to keep it out of the list of processes ($WENDING_TOKEN)."`
}

// maxTaskName is the maximum length of a task's name in characters.
const maxTaskName = 64

// Run imports the file, and prints the id of the task and the address of its answers.
func (c importCommand) Run(ctx context.Context, stdout io.Writer) error {
	name := []rune(cmp.Or(c.Name, strings.TrimSuffix(filepath.Base(c.File), filepath.Ext(c.File))))
	fields := map[string]any{"task_name": string(name[:min(len(name), maxTaskName)]), "format": c.Format}
	for column, own := range c.Column {
		fields["column_"+column] = own
	}
	client := gate.Client{Server: strings.TrimRight(c.Server, "/"), HTTP: &http.Client{}, Token: c.Token}
	id, err := client.ImportAnswers(ctx, c.File, fields)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n%s/tasks/%s/results\n", id, client.Server, id)
	return err
}
