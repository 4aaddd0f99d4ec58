package ui

import (
	"strings"

	"github.com/a-h/templ"
)

// Variant is the look of a button.
type Variant string

// Primary is for a page's main action, Outline for actions next to it, Ghost for the least prominent ones. Secondary
// marks the current place, and Destructive removes something.
const (
	Primary     Variant = ""
	Outline     Variant = "outline"
	Ghost       Variant = "ghost"
	Secondary   Variant = "secondary"
	Destructive Variant = "destructive"
)

// Size is the size of a button.
type Size string

// Square and SmallSquare are for buttons without words.
const (
	Normal      Size = ""
	Small       Size = "sm"
	ExtraSmall  Size = "xs"
	Square      Size = "icon"
	SmallSquare Size = "icon-sm"
)

// Button returns the attributes that turn an element – <button>, <a>, <summary> – into a button, with additional
// classes.
func Button(variant Variant, size Size, classes ...string) templ.OrderedAttributes {
	attributes := templ.OrderedAttributes{{Key: "class", Value: strings.Join(append([]string{"btn"}, classes...), " ")}}
	if variant != Primary {
		attributes = append(attributes, templ.KeyValue[string, any]{Key: "data-variant", Value: string(variant)})
	}
	if size != Normal {
		attributes = append(attributes, templ.KeyValue[string, any]{Key: "data-size", Value: string(size)})
	}
	return attributes
}
