package taskpages

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/views/text"
)

// Column is an optional column of the list of tasks.
type Column string

// The optional columns.
const (
	ColumnAgreement Column = "agreement"
	ColumnPassRate  Column = "pass_rate"
	ColumnFacts     Column = "facts"
	ColumnVerdicts  Column = "verdicts"
	ColumnCost      Column = "cost"
	ColumnDataset   Column = "dataset"
	ColumnAgent     Column = "agent"
)

// Columns lists all columns in the order of the list.
var Columns = []Column{ColumnAgreement, ColumnPassRate, ColumnFacts, ColumnVerdicts, ColumnCost, ColumnDataset,
	ColumnAgent}

// usualColumns are shown to users who have not chosen any columns.
var usualColumns = []Column{ColumnAgreement, ColumnPassRate, ColumnVerdicts}

// noColumns stands for an empty list of columns, because an empty text means the usual ones.
const noColumns = "none"

// ReadColumns parses a choice of columns: their names, separated by commas. isValid reports that all of them exist.
func ReadColumns(chosen string) (columns []Column, isValid bool) {
	if chosen == "" {
		return usualColumns, true
	}
	isValid = true
	for name := range strings.SplitSeq(chosen, ",") {
		switch column := Column(strings.TrimSpace(name)); {
		case slices.Contains(Columns, column):
			columns = append(columns, column)
		case column != noColumns && column != "":
			isValid = false
		}
	}
	slices.SortFunc(columns, func(a, b Column) int { return slices.Index(Columns, a) - slices.Index(Columns, b) })
	return slices.Compact(columns), isValid
}

// ColumnNames formats a choice of columns in the form that ReadColumns parses.
func ColumnNames(columns []Column) string {
	if len(columns) == 0 {
		return noColumns
	}
	names := make([]string, len(columns))
	for n, column := range columns {
		names[n] = string(column)
	}
	return strings.Join(names, ",")
}

// has reports whether the list shows a column.
func (l List) has(column Column) bool { return slices.Contains(l.Columns, column) }

// span returns the number of columns in the list.
func (l List) span() int { return len(l.Columns) + fixedColumns }

// fixedColumns is the number of columns that the list always has: checkbox, state, name, time, progress and actions.
const fixedColumns = 6

func columnName(ctx context.Context, column Column) string {
	return text.T(ctx, "tasks.column."+string(column))
}

// rangeText formats the lowest and the highest number among a task's variants; empty if there are none.
func rangeText[T any](of []T, write func(T) string) string {
	if len(of) != 2 {
		return ""
	}
	least, most := write(of[0]), write(of[1])
	if least == most {
		return most
	}
	return least + " – " + most
}

func percentOf(share float64) string { return text.Percent(&share) }

// figures returns the statistics of a task that has ended; for other tasks, the zero value.
func figures(task db.Task) db.TaskStatistics {
	if task.Final == nil {
		return db.TaskStatistics{}
	}
	return *task.Final
}

// taskCost formats the cost of a task's calls; empty if it is unknown.
func taskCost(task db.Task) string {
	amount, isKnown := amountOf(figures(task).Cost)
	if !isKnown {
		return ""
	}
	short := text.Significant(amount, costDigits)
	return text.Cost(&short, figures(task).Currency)
}

// amountOf parses a decimal number; isKnown is false if there is none.
func amountOf(cost *string) (amount float64, isKnown bool) {
	if cost == nil {
		return 0, false
	}
	amount, err := strconv.ParseFloat(*cost, 64)
	return amount, err == nil
}

// costDigits are the significant digits of amounts of money in the list.
const costDigits = 4

// names maps the ids of library entries to their current names.
type names map[uuid.UUID]string

// agent returns the name of an agent or model that a task calls: its name in the library or, once deleted, its name
// when the task was created; for a typed address, the host and path.
func (n names) agent(target db.Target) string {
	if target.LibraryID != nil {
		if name, isThere := n[*target.LibraryID]; isThere {
			return name
		}
	}
	if target.Name != "" {
		return target.Name
	}
	_, address, found := strings.Cut(target.URL, "://")
	if !found {
		return target.URL
	}
	return address
}

// agents returns the names of all agents and models that a task calls.
func (n names) agents(task db.Task) string {
	all := make([]string, len(task.Targets))
	for at, target := range task.Targets {
		all[at] = n.agent(target)
	}
	return strings.Join(all, " · ")
}

// dataset returns the name of a task's saved dataset or of its file of questions.
func (n names) dataset(task db.Task) string {
	if task.DatasetID != nil {
		if name, isThere := n[*task.DatasetID]; isThere {
			return name
		}
	}
	return task.DatasetName
}

// version is like dataset, but adds the version if the dataset is saved.
func (n names) version(task db.Task) string {
	if task.DatasetVersion != nil {
		return n.dataset(task) + " v" + strconv.Itoa(*task.DatasetVersion)
	}
	return n.dataset(task)
}
