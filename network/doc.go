// Package network gives sandboxes the network that their policies describe. The gateways
// (network/gateway) are in a program of their own, aether-net, which is in a jail, holds
// devices and policies and nothing else, and is started again when it dies: connections
// are lost then, and no sandbox.
//
//	service := network.New(network.Options{Lists: lists})
//	attached, err := service.Connect(ctx, n, network.Place{PID: pid, Still: still}) // a sandbox that lives
//	err = attached.SetNetwork(ctx, other)                                           // cuts what is no longer allowed
//	err = attached.Close()
package network
