package replay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/engine"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/blob"
	"wending/views/paths"
	"wending/views/text"
)

// FilesConfig holds the dependencies of the pages and endpoints that send files.
type FilesConfig struct {
	Store   *db.Store
	Files   blob.Store
	Version string
	Failed  rest.Failed
	// Admits reports whether a ticket gives access to the file at the given address at the given time.
	Admits func(address, ticket string, now time.Time) bool
}

type filesHandler struct{ FilesConfig }

func (h *filesHandler) assets() engine.Assets { return engine.NewAssets(h.Store) }

type listInput struct {
	TaskID string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	rest.PageQuery
	QuestionID string `query:"question_id" doc:"Only files of the question with this id" example:"q1"`
	Variant    int    `query:"variant" minimum:"0" maximum:"20" doc:"Only files of the variant with this number; 0 means all" example:"1"`
	Type       string `query:"type" enum:"image,audio,video,file" doc:"Only files of this type" example:"image"`
}

// assetItem is a file that an agent produced (an asset), as the API returns it.
type assetItem struct {
	ID          uuid.UUID         `json:"id" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	RunID       int64             `json:"run_id" example:"4711"`
	QuestionID  string            `json:"question_id" example:"q1"`
	Variant     int               `json:"variant" example:"1"`
	RunIndex    int               `json:"run_index" example:"1"`
	Path        string            `json:"path" doc:"Path of the file within its run" example:"images/logo.png"`
	Type        string            `json:"type" values:"files" example:"image"`
	State       engine.AssetState `json:"state" doc:"State of the copy; QUEUED until it is stored or copying fails permanently" example:"STORED"`
	MediaType   *string           `json:"media_type" doc:"Type detected from the content; null until the file is stored" example:"image/png"`
	Size        *int64            `json:"size" doc:"Size in bytes" example:"48213"`
	SHA256      *string           `json:"sha256" doc:"SHA-256 of the file, in hexadecimal; null until it is stored"`
	OriginalURL *string           `json:"original_url" doc:"The agent's own URL for the file; null if the file came inline" example:"https://agent.example/files/1.png"`
	URL         string            `json:"url" doc:"Path of the copy on this server" example:"/api/v1/evaluation-tasks/6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21/assets/6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	Error       *string           `json:"error" doc:"Why there is no copy yet, or at all; null if there is no error"`
	CreatedAt   rest.Moment       `json:"created_at"`
	StoredAt    *rest.Moment      `json:"stored_at"`
}

func newFileItem(a engine.PlacedAsset, locale text.Locale) assetItem {
	told := assetItem{
		ID: a.ID, RunID: a.RunID, QuestionID: a.QuestionID, Variant: a.Variant, RunIndex: a.RunIndex, Path: a.Path,
		Type: a.Kind, State: a.State, MediaType: a.MediaType, Size: a.Size, OriginalURL: a.OriginalURL,
		URL: paths.Asset(a.TaskID, a.ID), CreatedAt: rest.Moment(a.CreatedAt),
		StoredAt: rest.MomentOf(a.StoredAt),
	}
	if a.Error != nil {
		why := locale.Reason(*a.Error)
		told.Error = &why
	}
	if hash := a.HashOf(); hash != "" {
		told.SHA256 = &hash
	}
	return told
}

// assetList is one page of a list of files.
type assetList struct {
	Items      []assetItem     `json:"items"`
	Pagination rest.Pagination `json:"pagination"`
}

type listOutput struct{ Body assetList }

type filePath struct {
	TaskID  string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	AssetID string `path:"asset_id" doc:"Id of the asset" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

// RegisterFilesAPI registers the endpoints: the list of files on the API whole, and those that send files on the API
// stream.
func RegisterFilesAPI(whole, stream huma.API, config FilesConfig) {
	h := &filesHandler{config}
	rest.Register(whole, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APITasks + "/{task_id}/assets", ID: "list-assets", Tag: "tasks",
		Summary:     "List the files that a task's agents produced",
		Description: "The files of the current runs, ordered by question, variant, run and position in the run.",
		Faults:      []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.list)
	file := func(contentType string) map[string]*huma.Response {
		return map[string]*huma.Response{
			"200": rest.Download("The file", map[string]string{contentType: ""}),
			"206": rest.Download("The requested range; multipart/byteranges for several ranges", map[string]string{"*/*": ""}),
			"304": {Description: "The client's copy is current (If-None-Match)"},
			"416": rest.Refusal(stream.OpenAPI().Components.Schemas, http.StatusRequestedRangeNotSatisfiable,
				request.CodeRequestInvalid),
		}
	}
	rest.Register(stream, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APITasks + "/{task_id}/assets/{asset_id}", ID: "get-asset", Tag: "tasks",
		Summary:     "Get a file that an agent produced",
		Description: "Supports range requests. A file that a browser might execute is sent as an attachment.",
		Faults:      []string{request.CodeTaskNotFound}, Responses: file("*/*"),
	}, func(ctx context.Context, input *filePath) (*huma.StreamResponse, error) {
		return h.send(ctx, input, false)
	})
	rest.Register(stream, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APITasks + "/{task_id}/assets/{asset_id}/thumbnail", ID: "get-asset-thumbnail",
		Tag: "tasks", Summary: "Get a thumbnail of a picture as JPEG",
		Description: "For PNG, JPEG, GIF and WebP pictures that are not too large.",
		Faults:      []string{request.CodeTaskNotFound}, Responses: file("image/jpeg"),
	}, func(ctx context.Context, input *filePath) (*huma.StreamResponse, error) {
		return h.send(ctx, input, true)
	})
}

// RegisterFiles registers the addresses at which agents find the files of earlier turns. They require no account, but a
// ticket.
func RegisterFiles(group *echo.Group, config FilesConfig) {
	h := &filesHandler{config}
	group.GET(paths.Files+"/:taskId/:assetId", h.sendToAgent)
}

// sendToAgent sends a file to a client with a valid ticket. To others it does not even reveal whether the file exists.
func (h *filesHandler) sendToAgent(c echo.Context) error {
	taskID, taskErr := uuid.Parse(c.Param("taskId"))
	id, err := uuid.Parse(c.Param("assetId"))
	if taskErr != nil || err != nil || !h.Admits(paths.File(taskID, id), c.QueryParam("ticket"), time.Now()) {
		return request.NewFault(request.CodeForbidden)
	}
	one, err := h.assets().Get(c.Request().Context(), taskID, id)
	if err != nil {
		return err
	}
	send, err := h.open(c.Request().Context(), one, false)
	if err != nil {
		return err
	}
	send(c)
	return nil
}

func (h *filesHandler) list(ctx context.Context, input *listInput) (*listOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	filter := engine.AssetFilter{QuestionID: request.SearchText(input.QuestionID), Variant: input.Variant,
		Kind: input.Type}
	found, total, err := h.assets().List(ctx, task.ID, filter, input.Window())
	if err != nil {
		return nil, err
	}
	output := &listOutput{assetList{make([]assetItem, len(found)), rest.NewPagination(input.Window(), total)}}
	for n, one := range found {
		output.Body.Items[n] = newFileItem(one, text.LocaleOf(ctx))
	}
	return output, nil
}

// send sends the copy of a file that an agent produced, or its thumbnail.
func (h *filesHandler) send(ctx context.Context, input *filePath, isThumbnail bool) (*huma.StreamResponse, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	id, err := uuid.Parse(input.AssetID)
	if err != nil {
		return nil, request.NewFault(request.CodeNotFound)
	}
	one, err := h.assets().Get(ctx, task.ID, id)
	if err != nil {
		return nil, err
	}
	send, err := h.open(ctx, one, isThumbnail)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) { send(humaecho.Unwrap(ctx)) }}, nil
}

// open opens a file's copy or its thumbnail. send sends and closes it.
func (h *filesHandler) open(ctx context.Context, one engine.Asset,
	isThumbnail bool) (send func(echo.Context), err error) {
	key, mediaType := one.StorageKey, one.MediaType
	if isThumbnail {
		jpeg := "image/jpeg"
		key, mediaType = one.ThumbnailKey, &jpeg
	}
	if key == nil && !isThumbnail {
		return h.openWaiting(ctx, one)
	}
	if key == nil || mediaType == nil {
		return nil, request.NewFault(request.CodeNotFound)
	}
	file, err := h.Files.Open(ctx, *key)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, request.NewFault(request.CodeNotFound)
	}
	if err != nil {
		return nil, err
	}
	return func(c echo.Context) {
		defer file.Close() //nolint:errcheck // only read
		serve(c, file, *mediaType, path.Base(one.Path), one.HashOf()+strconv.FormatBool(isThumbnail))
	}, nil
}

// openWaiting opens a file that came inline and has not been stored yet, because the next turn of its conversation may
// already refer to it. Its type has not been checked, so browsers never display it.
func (h *filesHandler) openWaiting(ctx context.Context, one engine.Asset) (send func(echo.Context), err error) {
	content, err := h.assets().Waiting(ctx, one.TaskID, one.ID)
	if err != nil {
		return nil, err
	}
	return func(c echo.Context) {
		serve(c, bytes.NewReader(content), "application/octet-stream", path.Base(one.Path), one.ID.String())
	}, nil
}

// shown are the media types that browsers may display, because they contain nothing that can run.
var shown = []string{
	"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp",
	"audio/mpeg", "audio/wav", "audio/ogg", "audio/mp4", "audio/flac", "audio/aac", "audio/x-m4a", "video/mp4",
	"video/webm", "video/quicktime", "video/ogg",
}

// isShown reports whether a media type is one of shown.
func isShown(mediaType string) bool { return slices.Contains(shown, mediaType) }

// serve sends a file. A file of a type that a browser might run is sent as an attachment of unknown type. The browser
// may cache a file, but must ask the server before each use.
func serve(c echo.Context, file io.ReadSeeker, mediaType, name, tag string) {
	header := c.Response().Header()
	header.Set("Content-Security-Policy",
		"sandbox; default-src 'none'; style-src 'unsafe-inline'; media-src 'self'; img-src 'self'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "private, no-cache")
	header.Set("ETag", strconv.Quote(tag))
	disposition := request.Inline(name)
	if !isShown(mediaType) {
		mediaType, disposition = "application/octet-stream", request.Attachment(name)
	}
	header.Set("Content-Type", mediaType)
	header.Set("Content-Disposition", disposition)
	response := &withoutRange{ResponseWriter: c.Response()}
	if http.ServeContent(response, c.Request(), "", time.Time{}, file); response.isRefused {
		header.Del("Content-Disposition")
		header.Del("Content-Type")
		c.Error(echo.NewHTTPError(http.StatusRequestedRangeNotSatisfiable))
	}
}

// withoutRange suppresses the plain text that http.ServeContent writes if the requested range does not exist. The error
// is then written in the same format as all others.
type withoutRange struct {
	http.ResponseWriter
	isRefused bool
}

func (w *withoutRange) WriteHeader(status int) {
	if w.isRefused = status == http.StatusRequestedRangeNotSatisfiable; !w.isRefused {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *withoutRange) Write(text []byte) (int, error) {
	if w.isRefused {
		return len(text), nil
	}
	return w.ResponseWriter.Write(text)
}
