// What the processes of a virtual cluster's control plane are called.

/** In the order in which they are started; they are stopped in the opposite one. */
export const CONTROL_PLANE_PARTS = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] as const;
export type ControlPlanePart = (typeof CONTROL_PLANE_PARTS)[number];

/** Of a control plane of several replicas: what its workers on this node ask goes through it to one that serves. */
export const API_BALANCER = "api-balancer";
export type ClusterPart = typeof API_BALANCER | "etcd" | ControlPlanePart;
