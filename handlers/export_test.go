package handlers

import "wending/handlers/admission"

// Gates are what the server's requests must pass.
func (s *Server) Gates() *admission.Gates { return s.gates }
