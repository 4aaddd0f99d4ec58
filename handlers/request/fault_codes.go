package request

import (
	"net/http"

	"wending/jobs/dataset"
)

// The codes of errors, in addition to those of package dataset for files of questions.
const (
	CodeTaskNameRequired    = "TASK_NAME_REQUIRED"
	CodeTaskNameTooLong     = "TASK_NAME_TOO_LONG"
	CodeAgentURLRequired    = "AGENT_URL_REQUIRED"
	CodeAgentURLInvalid     = "AGENT_URL_INVALID"
	CodeAgentURLNotAllowed  = "AGENT_URL_NOT_ALLOWED"
	CodeAgentHeadersInvalid = "AGENT_HEADERS_INVALID"
	CodeDatasetRequired     = "DATASET_REQUIRED"
	CodeDatasetTooLarge     = "DATASET_TOO_LARGE"
	CodeParameterInvalid    = "PARAMETER_INVALID"
	CodeTaskTooLarge        = "TASK_TOO_LARGE"
	CodeSensitiveContent    = "SENSITIVE_CONTENT"
	CodeUnconfirmed         = "SENSITIVE_UNCONFIRMED"
	CodeArchiveInvalid      = "ARCHIVE_INVALID"
	CodeRequestInvalid      = "REQUEST_INVALID"
	CodeRequestTooLarge     = "REQUEST_TOO_LARGE"
	CodeHeadersTooLarge     = "HEADERS_TOO_LARGE"
	CodeTaskNotFound        = "TASK_NOT_FOUND"
	CodeLaunchNotFound      = "LAUNCH_NOT_FOUND"
	CodeRunNotFound         = "RUN_NOT_FOUND"
	CodeQuestionNotFound    = "QUESTION_NOT_FOUND"
	CodeNotFound            = "NOT_FOUND"
	CodeTaskNotFinished     = "TASK_NOT_FINISHED"
	CodeTaskStateConflict   = "TASK_STATE_CONFLICT"
	CodeReviewConflict      = "REVIEW_CONFLICT"
	CodeMethodNotAllowed    = "METHOD_NOT_ALLOWED"
	CodeUnauthenticated     = "UNAUTHENTICATED"
	CodeForbidden           = "FORBIDDEN"
	CodeTooManyAttempts     = "TOO_MANY_ATTEMPTS"
	CodeQuotaExceeded       = "QUOTA_EXCEEDED"
	CodeServiceUnavailable  = "SERVICE_UNAVAILABLE"
	CodeInternalError       = "INTERNAL_ERROR"
)

// statuses maps every code to its HTTP status.
var statuses = map[string]int{
	CodeTaskNameRequired:          http.StatusUnprocessableEntity,
	CodeTaskNameTooLong:           http.StatusUnprocessableEntity,
	CodeAgentURLRequired:          http.StatusUnprocessableEntity,
	CodeAgentURLInvalid:           http.StatusUnprocessableEntity,
	CodeAgentURLNotAllowed:        http.StatusUnprocessableEntity,
	CodeAgentHeadersInvalid:       http.StatusUnprocessableEntity,
	CodeDatasetRequired:           http.StatusUnprocessableEntity,
	CodeDatasetTooLarge:           http.StatusRequestEntityTooLarge,
	dataset.CodeFormatUnsupported: http.StatusUnprocessableEntity,
	dataset.CodeTooComplex:        http.StatusUnprocessableEntity,
	dataset.CodeUnreadable:        http.StatusUnprocessableEntity,
	dataset.CodeSchemaInvalid:     http.StatusUnprocessableEntity,
	dataset.CodeEmpty:             http.StatusUnprocessableEntity,
	dataset.CodeTooManyRows:       http.StatusUnprocessableEntity,
	dataset.CodeEncodingInvalid:   http.StatusUnprocessableEntity,
	dataset.CodeDuplicateID:       http.StatusUnprocessableEntity,
	dataset.CodeRowInvalid:        http.StatusUnprocessableEntity,
	CodeParameterInvalid:          http.StatusUnprocessableEntity,
	CodeTaskTooLarge:              http.StatusUnprocessableEntity,
	CodeSensitiveContent:          http.StatusUnprocessableEntity,
	CodeUnconfirmed:               http.StatusUnprocessableEntity,
	CodeArchiveInvalid:            http.StatusUnprocessableEntity,
	CodeRequestInvalid:            http.StatusUnprocessableEntity,
	CodeRequestTooLarge:           http.StatusRequestEntityTooLarge,
	CodeHeadersTooLarge:           http.StatusRequestHeaderFieldsTooLarge,
	CodeTaskNotFound:              http.StatusNotFound,
	CodeLaunchNotFound:            http.StatusNotFound,
	CodeRunNotFound:               http.StatusNotFound,
	CodeQuestionNotFound:          http.StatusNotFound,
	CodeNotFound:                  http.StatusNotFound,
	CodeTaskNotFinished:           http.StatusConflict,
	CodeTaskStateConflict:         http.StatusConflict,
	CodeReviewConflict:            http.StatusConflict,
	CodeMethodNotAllowed:          http.StatusMethodNotAllowed,
	CodeUnauthenticated:           http.StatusUnauthorized,
	CodeForbidden:                 http.StatusForbidden,
	CodeTooManyAttempts:           http.StatusTooManyRequests,
	CodeQuotaExceeded:             http.StatusTooManyRequests,
	CodeServiceUnavailable:        http.StatusServiceUnavailable,
	CodeInternalError:             http.StatusInternalServerError,
}
