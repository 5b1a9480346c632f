package mcp

// TakeMemory reserves all memory for large results.
func (h *Host) TakeMemory() (giveBack func()) {
	free := h.total.memory.free
	if !free.TryAcquire(maxLarge) {
		return nil
	}
	return func() { free.Release(maxLarge) }
}
