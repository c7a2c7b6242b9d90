// The components that virtual clusters are made of, and where each can be had. Any other version works when its programs
// are imported.
import type { Architecture, Component, ComponentRelease, ComponentSource } from "./component.ts";

const KUBERNETES_PROGRAMS = [
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubelet",
  "kube-proxy",
  "kubectl",
] as const;

const KUBERNETES_VERSIONS = ["1.36.4", "1.36.3", "1.35.6", "1.35.4", "1.34.4"] as const;

const sameName = (programs: readonly string[], folder: string): Record<string, string> =>
  Object.fromEntries(programs.map((program) => [program, `${folder}/${program}`]));

/** What Kubernetes is built from, beside the programs. */
function kubernetesModule(version: string) {
  const [major = "", minor = ""] = version.split(".");
  const key = "k8s.io/component-base/version";
  return {
    by: "go",
    module: "k8s.io/kubernetes",
    version: `v${version}`,
    // v1.36.4 is published together with v0.36.4 of what its repository stages.
    stagingVersion: `v0.${version.slice(version.indexOf(".") + 1)}`,
    stamps: {
      [`${key}.gitVersion`]: `v${version}`,
      [`${key}.gitMajor`]: major,
      [`${key}.gitMinor`]: minor,
      [`${key}.gitTreeState`]: "clean",
    },
  } as const;
}

function kubernetes(version: string): ComponentRelease {
  return {
    version,
    sources: (architecture) => [
      {
        by: "download",
        files: KUBERNETES_PROGRAMS.map((program) => {
          const url = `https://dl.k8s.io/v${version}/bin/linux/${architecture}/${program}`;
          return { program, url, checksums: `${url}.sha256` };
        }),
      },
      {
        ...kubernetesModule(version),
        programs: sameName(KUBERNETES_PROGRAMS, "k8s.io/kubernetes/cmd"),
        minutes: 8,
      },
    ],
  };
}

/** Upstream's own tests of a cluster. */
function kubernetesTests(version: string): ComponentRelease {
  return {
    version,
    sources: (architecture) => {
      const url = `https://dl.k8s.io/v${version}/kubernetes-test-linux-${architecture}.tar.gz`;
      return [
        {
          by: "download",
          archive: { url, checksums: `${url}.sha256` },
          programs: { "e2e.test": "kubernetes/test/bin/e2e.test" },
        },
        {
          ...kubernetesModule(version),
          programs: { "e2e.test": "k8s.io/kubernetes/test/e2e" },
          areTests: true,
          minutes: 5,
        },
      ];
    },
  };
}

const github = (repository: string, tag: string, file: string): string =>
  `https://github.com/${repository}/releases/download/${tag}/${file}`;

function etcd(version: string): ComponentRelease {
  return {
    version,
    sources: (architecture) => {
      const name = `etcd-v${version}-linux-${architecture}`;
      const at = (file: string): string => github("etcd-io/etcd", `v${version}`, file);
      return [
        {
          by: "download",
          archive: { url: at(`${name}.tar.gz`), checksums: at("SHA256SUMS") },
          programs: { etcd: `${name}/etcd` },
        },
        {
          by: "go",
          module: "go.etcd.io/etcd/server/v3",
          version: `v${version}`,
          programs: { etcd: "go.etcd.io/etcd/server/v3" },
          minutes: 1,
        },
      ];
    },
  };
}

const CONTAINERD_PROGRAMS = ["containerd", "containerd-shim-runc-v2", "ctr"] as const;

function containerd(version: string): ComponentRelease {
  return {
    version,
    sources: (architecture) => {
      const file = `containerd-${version}-linux-${architecture}.tar.gz`;
      const url = github("containerd/containerd", `v${version}`, file);
      const key = "github.com/containerd/containerd/v2/version";
      return [
        {
          by: "download",
          archive: { url, checksums: `${url}.sha256sum` },
          programs: sameName(CONTAINERD_PROGRAMS, "bin"),
        },
        {
          by: "go",
          module: "github.com/containerd/containerd/v2",
          version: `v${version}`,
          programs: sameName(CONTAINERD_PROGRAMS, "github.com/containerd/containerd/v2/cmd"),
          stamps: { [`${key}.Version`]: `v${version}` },
          minutes: 2,
        },
      ];
    },
  };
}

const CNI_PROGRAMS = ["bridge", "host-local", "loopback", "portmap"] as const;

function cniPlugins(version: string): ComponentRelease {
  return {
    version,
    sources: (architecture) => {
      const file = `cni-plugins-linux-${architecture}-v${version}.tgz`;
      const url = github("containernetworking/plugins", `v${version}`, file);
      const base = "github.com/containernetworking/plugins";
      return [
        {
          by: "download",
          archive: { url, checksums: `${url}.sha256` },
          programs: sameName(CNI_PROGRAMS, "."),
        },
        {
          by: "go",
          module: base,
          version: `v${version}`,
          programs: {
            ...sameName(["bridge", "loopback"], `${base}/plugins/main`),
            "host-local": `${base}/plugins/ipam/host-local`,
            portmap: `${base}/plugins/meta/portmap`,
          },
          minutes: 1,
        },
      ];
    },
  };
}

function coredns(version: string): ComponentRelease {
  return {
    version,
    sources: (architecture) => {
      const url = github("coredns/coredns", `v${version}`, `coredns_${version}_linux_${architecture}.tgz`);
      return [
        {
          by: "download",
          archive: { url, checksums: `${url}.sha256` },
          programs: { coredns: "coredns" },
        },
        {
          by: "go",
          module: "github.com/coredns/coredns",
          version: `v${version}`,
          programs: { coredns: "github.com/coredns/coredns" },
          minutes: 4,
        },
      ];
    },
  };
}

/** 3.7 cannot be built as a module: it is of two, one of which is published nowhere. */
function traefik(version: string): ComponentRelease {
  return {
    version,
    sources: (architecture) => {
      const at = (file: string): string => github("traefik/traefik", `v${version}`, file);
      return [
        {
          by: "download",
          archive: {
            url: at(`traefik_v${version}_linux_${architecture}.tar.gz`),
            checksums: at(`traefik_v${version}_checksums.txt`),
          },
          programs: { traefik: "traefik" },
        },
        {
          by: "go",
          module: "github.com/traefik/traefik/v3",
          version: `v${version}`,
          programs: { traefik: "github.com/traefik/traefik/v3/cmd/traefik" },
          hasForks: true,
          stamps: { "github.com/traefik/traefik/v3/pkg/version.Version": version },
        },
      ];
    },
  };
}

/** Whatever this host's Debian has. */
const DEBIAN = "debian";
const fromDebian = (packages: readonly string[], programs: Readonly<Record<string, string>>) => ({
  version: DEBIAN,
  sources: (_architecture: Architecture): readonly ComponentSource[] => [
    { by: "debian", packages, programs },
  ],
});

export const componentCatalogue: readonly Component[] = [
  {
    name: "kubernetes",
    about: "control plane, kubelet, kube-proxy and kubectl",
    programs: KUBERNETES_PROGRAMS,
    releases: KUBERNETES_VERSIONS.map(kubernetes),
    proof: { program: "kube-apiserver", args: ["--version"], pattern: "^Kubernetes v{version}$" },
  },
  {
    name: "kubernetes-tests",
    about: "upstream's own tests of a cluster; needed by nobody who does not run them",
    programs: ["e2e.test"],
    releases: KUBERNETES_VERSIONS.map(kubernetesTests),
    proof: { program: "e2e.test", args: ["--version"], pattern: "v{version}$" },
  },
  {
    name: "etcd",
    about: "the store of larger virtual clusters",
    programs: ["etcd"],
    releases: [etcd("3.6.8"), etcd("3.7.3"), fromDebian(["etcd-server"], { etcd: "usr/bin/etcd" })],
  },
  {
    name: "containerd",
    about: "runs the containers of a worker",
    programs: CONTAINERD_PROGRAMS,
    releases: [containerd("2.4.2"), fromDebian(["containerd"], sameName(CONTAINERD_PROGRAMS, "usr/bin"))],
  },
  {
    name: "runc",
    about: "starts a container",
    programs: ["runc"],
    releases: [fromDebian(["runc"], { runc: "usr/sbin/runc" })],
  },
  {
    name: "cni-plugins",
    about: "connects pods to the network of their worker",
    programs: CNI_PROGRAMS,
    releases: [
      cniPlugins("1.9.1"),
      fromDebian(["containernetworking-plugins"], sameName(CNI_PROGRAMS, "usr/lib/cni")),
    ],
  },
  {
    name: "coredns",
    about: "names of Services and pods",
    programs: ["coredns"],
    releases: [coredns("1.15.0")],
  },
  {
    name: "traefik",
    about: "serves Ingresses of clusters that ask for it",
    programs: ["traefik"],
    releases: [traefik("3.6.12")],
    proof: { program: "traefik", args: ["version"], pattern: "Version: +{version}(\\n|$)" },
  },
  {
    name: "busybox",
    about: "what the images of pods that only hold a network, and of examples, are made of",
    programs: ["busybox"],
    releases: [fromDebian(["busybox-static"], { busybox: "bin/busybox" })],
  },
];
