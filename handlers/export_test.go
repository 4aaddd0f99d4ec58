package handlers

import "wending/handlers/request"

// Gates are what the server's requests must pass.
func (s *Server) Gates() *request.Gates { return s.gates }
