package scale

func init() { rest = 0 } // what sandboxes hold is not looked at here
