// The images of a Kubernetes version.
export function kubeletImage(version: string): string {
  return `ghcr.io/siderolabs/kubelet:v${version}`;
}

export type KubernetesComponent =
  | "kube-apiserver"
  | "kube-controller-manager"
  | "kube-proxy"
  | "kube-scheduler";

export function componentImage(component: KubernetesComponent, version: string): string {
  return `registry.k8s.io/${component}:v${version}`;
}
