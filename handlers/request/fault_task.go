package request

import "wending/jobs/tasks"

// TaskFault returns the fault of a task's field that violates a rule.
func TaskFault(wrong *tasks.InvalidError) *Fault {
	switch wrong.Problem {
	case tasks.TooLarge:
		return NewFault(CodeTaskTooLarge)
	case tasks.Missing, tasks.NotAnAddress, tasks.TooLong:
		codes := map[string]map[tasks.Problem]string{
			"task_name":     {tasks.Missing: CodeTaskNameRequired, tasks.TooLong: CodeTaskNameTooLong},
			"agent_api_url": {tasks.Missing: CodeAgentURLRequired, tasks.NotAnAddress: CodeAgentURLInvalid},
		}
		if code, hasCode := codes[wrong.Field][wrong.Problem]; hasCode {
			return NewFault(code)
		}
	}
	return FieldFault(wrong.Field, limitOf(wrong))
}

// limitOf returns the valid values of a task's field, as the error describes them.
func limitOf(wrong *tasks.InvalidError) Limit {
	switch wrong.Problem {
	case tasks.OutOfRange:
		return Between(wrong.Min, wrong.Max)
	case tasks.NotAChoice:
		return OneOf(wrong.Choices...)
	case tasks.NotARate:
		return ValidRate()
	case tasks.NotACost:
		return ValidCost()
	case tasks.NotAnAddress:
		return ValidAddress()
	case tasks.NotAnObject:
		return JSONObject()
	case tasks.NotAdaptive:
		return ValidAdaptive()
	case tasks.TooLong:
		return TextUpTo(wrong.Max)
	}
	return Required()
}
