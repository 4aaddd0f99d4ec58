// Package transfer exports tasks from one installation and imports them into another.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/pages"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/archive"
	"wending/jobs/blob"
	"wending/views/paths"
)

// Config holds the dependencies of the endpoints.
type Config struct {
	Archiver *archive.Archiver
	Failed   rest.Failed
}

type handler struct{ Config }

// maxArchive is the maximum size, in bytes, of an archive.
const maxArchive = 1 << 30

// RegisterPages registers the action of the import form on the list of tasks.
func RegisterPages(group *echo.Group, config Config) {
	h := &handler{config}
	group.POST(paths.Import, func(c echo.Context) error {
		id, err := h.take(c.Request().Context(), c.Response(), c.Request())
		if err != nil {
			return err
		}
		return pages.Done(c, paths.Task(id), "imported")
	})
}

type taskPath struct {
	TaskID string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

// importInput is a request to import an archive, whose body is read as a stream.
type importInput struct {
	response http.ResponseWriter
	request  *http.Request
}

// Resolve implements huma.Resolver.
func (i *importInput) Resolve(ctx huma.Context) []error {
	c := humaecho.Unwrap(ctx)
	i.response, i.request = c.Response(), c.Request()
	return nil
}

// imported is the response to importing an archive: the task that was created from it.
type imported struct {
	TaskID uuid.UUID     `json:"task_id" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	Status db.TaskStatus `json:"status" enum:"SUCCEEDED,STOPPED,FAILED" example:"SUCCEEDED"`
}

type importedOutput struct{ Body imported }

// RegisterAPI registers the endpoints.
func RegisterAPI(api huma.API, config Config) {
	h, binary := &handler{config}, huma.Schema{Type: "string", Format: "binary"}
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APITasks + "/{task_id}/archive", ID: "get-archive", Tag: "tasks",
		Summary: "Download a task with its results",
		Description: "A ZIP file with the settings (without secrets), the questions, the current runs with their " +
			"evaluations, the report in every format, the events of the calls, and the files that agents produced. " +
			"`manifest.json` has the SHA-256 of every part. Another installation can import the archive.",
		Faults:    []string{request.CodeTaskNotFound, request.CodeTaskNotFinished},
		Responses: map[string]*huma.Response{"200": rest.Download("The archive", map[string]string{"application/zip": ""})},
	}, h.get)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: paths.APITasks + "/import", ID: "import-task", Tag: "tasks",
		Status: http.StatusCreated, Summary: "Import a task with its results",
		Description: "The file downloaded from archive, as the body or as the form field archive. The new task has a new " +
			"id, no secrets and no channels; its files and the replay of its calls are there again. An archive with a part " +
			"that is unknown or does not match its hash is refused; archives of earlier versions (format 1) have no hashes. " +
			"Errors name the file, line and member concerned.",
		Faults: []string{request.CodeArchiveInvalid, request.CodeRequestTooLarge, request.CodeQuotaExceeded},
		Body: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/zip": {Schema: &binary},
			"multipart/form-data": {Schema: &huma.Schema{
				Type: "object", Required: []string{"archive"}, Properties: map[string]*huma.Schema{"archive": &binary},
			}},
		}},
	}, h.post)
}

func (h *handler) get(ctx context.Context, input *taskPath) (*huma.StreamResponse, error) {
	task, err := request.Task(ctx, h.Archiver.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	if task.Status.IsActive() {
		return nil, request.NewFault(request.CodeTaskNotFinished)
	}
	var parts []archive.Part
	for _, format := range archive.Reports {
		parts = append(parts, archive.Part{Name: "report." + format, Write: func(ctx context.Context, to io.Writer) error {
			write, err := reading.NewReports(h.Archiver.Store, h.Archiver.Files).Prepare(ctx, task,
				reading.Order{Format: format, IncludeErrors: true})
			if err != nil {
				return err
			}
			return write(ctx, to)
		}})
	}
	return rest.Stream(h.Failed, func(ctx huma.Context) error {
		response := humaecho.Unwrap(ctx).Response()
		response.Header().Set("Content-Type", "application/zip")
		response.Header().Set("Content-Disposition", request.ReportDisposition(task.Name, "zip"))
		response.WriteHeader(http.StatusOK)
		return h.Archiver.Write(ctx.Context(), task, response, parts)
	}), nil
}

func (h *handler) post(ctx context.Context, input *importInput) (*importedOutput, error) {
	id, err := h.take(ctx, input.response, input.request)
	if err != nil {
		return nil, err
	}
	task, err := h.Archiver.Store.Task(ctx, request.ScopeOf(ctx), id)
	return &importedOutput{imported{task.ID, task.Status}}, err
}

// take imports the archive in a request (its body, or the form field "archive") and returns the new task's id. The
// archive is first stored in a temporary file, because a ZIP file is read from its end.
func (h *handler) take(ctx context.Context, w http.ResponseWriter, r *http.Request) (uuid.UUID, error) {
	info := request.From(ctx)
	leave, err := info.Gates.Imports.Enter(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	defer leave()
	if err := h.Archiver.Tasks.HasRoom(); err != nil {
		return uuid.Nil, err
	}
	if err := info.TakeUpload(ctx); err != nil {
		return uuid.Nil, err
	}
	body, err := bodyOf(w, r)
	if err != nil {
		return uuid.Nil, err
	}
	file, err := blob.Unnamed("")
	if err != nil {
		return uuid.Nil, err
	}
	defer file.Close() //nolint:errcheck // only read from here on
	size, err := io.Copy(file, body)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return uuid.Nil, request.NewFault(request.CodeRequestTooLarge).WithCause(err)
	}
	if err != nil {
		return uuid.Nil, request.NewFault(request.CodeRequestInvalid).WithCause(err)
	}
	id, err := h.read(ctx, file, size)
	request.Made(ctx, id.String(), "")
	return id, err
}

// read imports an archive, unless that exceeds the project's quotas, and returns the new task's id.
func (h *handler) read(ctx context.Context, file io.ReaderAt, size int64) (uuid.UUID, error) {
	quotas, projectID, taken := people.NewQuotas(h.Archiver.Store), request.From(ctx).Scope.Home(), int64(0)
	id, err := h.Archiver.Read(ctx, projectID, request.From(ctx).Actor, file, size, func(bytes int64) error {
		err := quotas.TakeDisk(ctx, projectID, bytes)
		if err == nil {
			taken = bytes
		}
		return err
	})
	if err != nil && taken > 0 {
		err = errors.Join(err, quotas.TakeDisk(context.WithoutCancel(ctx), projectID, -taken))
	}
	return id, err
}

// bodyOf returns a reader of the archive in a request, which may still be arriving.
func bodyOf(w http.ResponseWriter, r *http.Request) (io.Reader, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxArchive)
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return r.Body, nil
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, request.NewFault(request.CodeRequestInvalid).WithCause(err)
	}
	for {
		part, err := parts.NextPart()
		if err != nil {
			return nil, request.NewFault(request.CodeArchiveInvalid).
				WithCause(fmt.Errorf("the field archive is missing: %w", err))
		}
		if part.FormName() == "archive" {
			return part, nil
		}
		if request.IsAPI(r) {
			return nil, request.UnknownFieldFault(part.FormName(), []string{"archive"})
		}
	}
}
