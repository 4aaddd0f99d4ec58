package handlers

import "wending/handlers/request"

// Gates returns the gates of the server.
func (s *Server) Gates() *request.Gates { return s.gates }
