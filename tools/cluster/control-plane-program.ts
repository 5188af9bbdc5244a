/** The names of the control plane's programs. */
export type ControlPlaneProgram = 'etcd' | 'apiserver' | 'controller-manager' | 'scheduler' | 'coredns';

/** Arguments that follow the default arguments of a program and override them: the last value of a flag applies. */
export type ControlPlaneFlags = Readonly<Partial<Record<ControlPlaneProgram, readonly string[]>>>;
