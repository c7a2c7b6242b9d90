// Prints its port once it serves; the bucket is there. Keys are the server's own.
const S3rver = require(`${process.argv[2]}/node_modules/s3rver`);
const server = new S3rver({
  address: "127.0.0.1",
  port: 0,
  silent: true,
  directory: process.argv[3],
  configureBuckets: [{ name: "backups" }],
});
server.run().then(({ port }) => console.log(`serving ${port}`));
