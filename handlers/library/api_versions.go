package library

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/dataset"
	"wending/jobs/evaluate"
	"wending/views/paths"
)

// VersionPath holds the path parameters with an entry's id and the number of a version.
type VersionPath struct {
	EntryPath
	Number string `path:"number" doc:"Number of the version" example:"1"`
}

// read parses the entry's id and the version's number. If one of them is invalid, the error says that the entry does
// not exist.
func (p VersionPath) read() (id uuid.UUID, number int, err error) {
	if id, err = p.id(); err != nil {
		return id, 0, err
	}
	number, err = strconv.Atoi(p.Number)
	if err != nil || number < 1 {
		return id, 0, &db.NotFoundError{Kind: entries.KindEntry}
	}
	return id, number, nil
}

type versionsInput struct {
	EntryPath
	rest.PageQuery
}

type versionInput struct{ VersionPath }

type rowsInput struct {
	VersionPath
	rest.PageQuery
}

// DatasetRow is a question of a dataset, with the number of its row.
type DatasetRow struct {
	Row            int               `json:"row" doc:"Row number as shown in a spreadsheet" example:"2"`
	QuestionID     string            `json:"question_id"`
	Question       string            `json:"question"`
	StandardAnswer string            `json:"standard_answer"`
	SystemPrompt   *string           `json:"system_prompt"`
	UserContext    *string           `json:"user_context"`
	Variables      map[string]string `json:"variables" doc:"Values of the dataset's other columns, by column name"`
}

// registerVersions registers the endpoints for versions of prompts and datasets.
func (e *endpoints) registerVersions(api huma.API) {
	schemas := api.OpenAPI().Components.Schemas
	promptsPath, datasetsPath := paths.API+"/prompts/{id}/versions", paths.API+"/datasets/{id}/versions"
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: promptsPath, ID: "add-prompt-version", Tag: "library", Status: http.StatusCreated,
		Summary: "Save the next version of a prompt",
		Faults:  []string{request.CodeNotFound}, Body: rest.JSONBody[promptVersionFields](schemas),
	}, e.addPromptVersion)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: promptsPath, ID: "list-prompt-versions", Tag: "library",
		Summary: "List the versions of a prompt, newest first",
		Faults:  []string{request.CodeNotFound},
	}, e.listPromptVersions)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: promptsPath + "/{number}", ID: "get-prompt-version", Tag: "library",
		Summary: "Get a version of a prompt",
		Faults:  []string{request.CodeNotFound},
	}, e.getPromptVersion)
	e.registerCorrections(api, paths.API+"/datasets/{id}")
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: datasetsPath, ID: "add-dataset-version", Tag: "library", Status: http.StatusCreated,
		Summary: "Save the next version of a dataset",
		Faults: append([]string{request.CodeNotFound, request.CodeDatasetRequired, request.CodeDatasetTooLarge,
			request.CodeParameterInvalid}, dataset.Codes...),
		Body: rest.Multipart[datasetVersionFields](schemas, true),
	}, e.addDatasetVersion)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: datasetsPath, ID: "list-dataset-versions", Tag: "library",
		Summary: "List the versions of a dataset, newest first",
		Faults:  []string{request.CodeNotFound},
	}, e.listDatasetVersions)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: datasetsPath + "/{number}", ID: "get-dataset-version", Tag: "library",
		Summary: "Get a version of a dataset",
		Faults:  []string{request.CodeNotFound},
	}, e.getDatasetVersion)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: datasetsPath + "/{number}/rows", ID: "list-dataset-rows", Tag: "library",
		Summary: "List the rows of a version, in the file's order",
		Faults:  []string{request.CodeNotFound},
	}, e.listDatasetRows)
}

// registerFiles registers the download of a dataset's file.
func (e *endpoints) registerFiles(api huma.API) {
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.API + "/datasets/{id}/versions/{number}/file", ID: "get-dataset-file",
		Tag: "library", Summary: "Download the file of a version",
		Faults: []string{request.CodeNotFound},
		Responses: map[string]*huma.Response{"200": rest.Download("The file as it was uploaded",
			map[string]string{"application/octet-stream": ""})},
	}, e.getDatasetFile)
}

func (e *endpoints) addPromptVersion(ctx context.Context, input *entryFormInput) (*entryOutput[PromptVersion], error) {
	_, row, err := find(ctx, input.EntryPath, e.Library.Entries.Prompts)
	if err != nil {
		return nil, err
	}
	next, faults := form.PromptVersion(input.Form, row)
	if err := form.Refusal(faults, nil); err != nil {
		return nil, err
	}
	row, err = e.Library.Entries.AddPromptVersion(ctx, request.ScopeOf(ctx), next)
	return &entryOutput[PromptVersion]{newPromptVersion(row.PromptVersion)}, err
}

func (e *endpoints) listPromptVersions(
	ctx context.Context, input *versionsInput,
) (*entriesOutput[PromptVersion], error) {
	id, row, err := find(ctx, input.EntryPath, e.Library.Entries.Prompts)
	if err != nil {
		return nil, err
	}
	versions, err := e.Library.Entries.PromptVersions(ctx, request.ScopeOf(ctx), id, input.Window())
	return pageOf(input.Window(), versions, row.Version, newPromptVersion), err
}

func (e *endpoints) getPromptVersion(ctx context.Context, input *versionInput) (*entryOutput[PromptVersion], error) {
	id, number, err := input.read()
	if err != nil {
		return nil, err
	}
	version, err := e.Library.Entries.PromptVersion(ctx, request.ScopeOf(ctx), id, number)
	return &entryOutput[PromptVersion]{newPromptVersion(version)}, err
}

func (e *endpoints) addDatasetVersion(
	ctx context.Context, input *entryFormInput,
) (*entryOutput[DatasetVersion], error) {
	_, row, err := find(ctx, input.EntryPath, e.Library.Entries.Datasets)
	if err != nil {
		return nil, err
	}
	if err := rest.Admit(ctx, input.Form); err != nil {
		return nil, err
	}
	next, faults, err := e.saver.DatasetVersion(ctx, row, input.Form)
	return &entryOutput[DatasetVersion]{newDatasetVersion(next.DatasetVersion)}, form.Refusal(faults, err)
}

func (e *endpoints) listDatasetVersions(ctx context.Context,
	input *versionsInput) (*entriesOutput[DatasetVersion], error) {
	id, row, err := find(ctx, input.EntryPath, e.Library.Entries.Datasets)
	if err != nil {
		return nil, err
	}
	versions, err := e.Library.Entries.DatasetVersions(ctx, request.ScopeOf(ctx), id, input.Window())
	return pageOf(input.Window(), versions, row.Version, newDatasetVersion), err
}

func (e *endpoints) getDatasetVersion(ctx context.Context, input *versionInput) (*entryOutput[DatasetVersion], error) {
	_, version, err := e.datasetVersion(ctx, input.VersionPath)
	return &entryOutput[DatasetVersion]{newDatasetVersion(version)}, err
}

func (e *endpoints) listDatasetRows(ctx context.Context, input *rowsInput) (*entriesOutput[DatasetRow], error) {
	id, version, err := e.datasetVersion(ctx, input.VersionPath)
	if err != nil {
		return nil, err
	}
	leave, err := request.From(ctx).Gates.Files.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	_, set, err := e.Library.ReadDataset(ctx, id, version)
	if err != nil {
		return nil, err
	}
	first := min(input.Window().Offset(), len(set.Rows))
	rows := set.Rows[first:min(first+input.PageSize, len(set.Rows))]
	return pageOf(input.Window(), rows, len(set.Rows), func(row dataset.Row) DatasetRow {
		one := DatasetRow{row.Number, row.QuestionID, row.Question, row.StandardAnswer, row.SystemPrompt, row.UserContext,
			map[string]string{}}
		for n, name := range set.VariableNames {
			one.Variables[name] = row.Variables[n]
		}
		return one
	}), nil
}

func (e *endpoints) getDatasetFile(ctx context.Context, input *versionInput) (*huma.StreamResponse, error) {
	id, version, err := e.datasetVersion(ctx, input.VersionPath)
	if err != nil {
		return nil, err
	}
	return rest.Stream(e.Failed, func(ctx huma.Context) error {
		file, err := e.Library.DatasetFile(ctx.Context(), id, version)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // only read
		response := humaecho.Unwrap(ctx).Response()
		header := response.Header()
		header.Set("Content-Type", "application/octet-stream")
		header.Set("Content-Length", strconv.Itoa(version.Size))
		header.Set("Content-Disposition", `attachment; filename="dataset.`+version.Extension+`"; filename*=UTF-8''`+
			url.PathEscape(version.FileName))
		response.WriteHeader(http.StatusOK)
		_, err = io.Copy(response, file)
		return err
	}), nil
}

func (e *endpoints) datasetVersion(ctx context.Context,
	path VersionPath) (id uuid.UUID, version entries.DatasetVersion, err error) {
	id, number, err := path.read()
	if err != nil {
		return id, version, err
	}
	version, err = e.Library.Entries.DatasetVersion(ctx, request.ScopeOf(ctx), id, number)
	return id, version, err
}

func newEvaluatorVersion(v entries.EvaluatorVersion) EvaluatorVersion {
	return EvaluatorVersion{v.Version, evaluate.Kind(v.Rule), v.Config, rest.Moment(v.SavedAt)}
}

func newPromptVersion(v entries.PromptVersion) PromptVersion {
	return PromptVersion{v.Version, v.System, v.User, v.Note, rest.Moment(v.SavedAt)}
}

func newDatasetVersion(v entries.DatasetVersion) DatasetVersion {
	return DatasetVersion{contentOf(v), rest.Moment(v.SavedAt)}
}
