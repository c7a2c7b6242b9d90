/** Where modules come from on this machine. */
export function goSettings(): Record<string, string> {
  const names = [
    "GOPROXY",
    "GOSUMDB",
    "GOTOOLCHAIN",
    "GOMODCACHE",
    "GOCACHE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
  ];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
