"""The words that tell names and codes from values. Data only: a change here is a new fingerprint version."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A number behind one of these is a code. Lower case.
CODE_WORDS = _words(
    """http https status statuscode status_code httpstatus http_status httpcode http_code grpc-status grpc_status code
    errorcode error_code errcode ret_code retcode returncode return_code reply-code reply_code replycode subcode rescode
    rspcode resultcode result_code vendorcode vendor_code faultcode errno error err errc oserror oserr winerror hresult
    ntstatus sqlstate sql_state sqlcode sqlerrm mysql ora msg exit exitcode exit_code exitstatus signal sig response
    responded answered fout fehler fehlercode hata kod kodu código codigo erreur 错误 错误代码 状态码"""
)
# Words that follow the number of an HTTP status.
HTTP_PHRASES = _words(
    """client server bad unauthorized payment forbidden not method proxy request conflict gone length precondition
    payload uri unsupported range expectation unprocessable locked failed too internal gateway service http moved found
    see temporary permanent multiple unavailable teapot"""
)
# What follows one of these is a name, however common the word.
NAME_WORDS = _words(
    """column field key table relation constraint index queue topic exchange task attribute method function parameter
    argument property setting variable module package class schema type option section role view sequence trigger
    database vhost routing endpoint operation command job handler service"""
)
# What follows `currency: ` or stands behind `user=` is a value, though it looks like a name.
VALUE_NOUNS = _words(
    """currency country locale language timezone sku coupon carrier bank iban account plan region unit host hostname
    thread"""
)
VALUE_KEYS = _words(
    """user username ruser logname owner tenant customer host hostname rhost ip addr address email mail path file
    filename url uri session sessionid token id pid tid request_id requestid trace_id traceid span_id correlation_id ts
    time"""
)
# Names with digits in them.
KNOWN_NAMES = _words(
    """s3 ec2 k8s db2 md4 md5 sha1 sha2 sha3 sha224 sha256 sha384 sha512 crc32 utf8 utf16 utf32 utf-8 utf-16 utf-32
    latin1 latin-1 iso-8859-1 iso-8859-9 windows-1252 windows-1254 cp1252 cp1254 base16 base32 base58 base64 iso8601
    rfc3339 rfc822 ipv4 ipv6 v4 v6 http2 http3 http/1.0 http/1.1 http/2 http/3 h2 h2c h3 tls1 tls1.2 tls1.3 tlsv1
    tlsv1.1 tlsv1.2 tlsv1.3 sslv2 sslv3 ssl3 ssh1 ssh2 oauth1 oauth2 x509 ed25519 secp256k1 p256 aes128 aes256 aes-128
    aes-256 rs256 rs512 hs256 hs512 es256 x86 x64 x86_64 amd64 i386 i686 arm64 aarch64 win32 win64 int8 int16 int32
    int64 uint8 uint16 uint32 uint64 float16 float32 float64 decimal128 python2 python3 psycopg2 psycopg3 urllib2
    urllib3 boto3 pg8000 mysql2 sqlite3 jinja2 neo4j log4j log4j2 slf4j junit4 junit5 vue3 web3 o365 i18n l10n h264
    h265 mp3 mp4 u2f 2fa 3ds 3d usb2 usb3 ps/2 802.11 i/o"""
)
TOP_LEVEL = _words(
    """com net org io dev app edu gov mil info biz cloud local lan internal intranet corp localdomain example test
    invalid localhost"""
)
COUNTRIES = _words(
    """ae ar at au be br ca ch cl cn co cz de dk ee es eu fi fr gr hk hu ie il in ir it jp kr lt lu lv mx nl no nz pl
    pt ro rs ru sa se sg si sk tr tw ua uk us za"""
)
SECOND_LEVEL = _words("com co net org edu gov ac or ne")
# A dotted name that begins with one of these is a package of code.
PACKAGE_ROOTS = _words("com org net io edu gov java javax jakarta sun jdk kotlin scala akka de fr uk")
FILE_ENDINGS = _words(
    """pdf csv tsv json jsonl ndjson xml xsd xsl txt text log out err zip gz tgz bz2 xz zst 7z rar tar png jpg jpeg gif
    bmp tif tiff webp svg ico doc docx xls xlsx ppt pptx odt ods rtf html htm xhtml md rst yaml yml toml conf cfg ini
    properties parquet avro orc sql db sqlite tmp temp bak old swp lock pid sock dat data bin iso img dmg so dll dylib
    exe msi jar war ear class py pyc js mjs cjs jsx ts tsx java kt scala rb go rs cs vb fs cpp cc cxx hpp php pl sh bat
    ps1 swift wav mp3 mp4 avi mov mkv eml msg ics vcf pem crt cer p12 pfx jks pcap pcapng plist map rts trace edi
    edifact sav wal idx"""
)
# What an operating system or a protocol says to whomever: alone it names no cause that others could share. Lower case.
GENERIC_PHRASES = frozenset(
    (
        *(
            "connection refused",
            "connection reset",
            "connection reset by peer",
            "connection closed",
            "broken pipe",
        ),
        *("connection timed out", "operation timed out", "request timed out", "timed out", "read timed out"),
        *(
            "i/o timeout",
            "timeout expired",
            "timeout exceeded",
            "deadline exceeded",
            "context deadline exceeded",
        ),
        *(
            "context canceled",
            "no such host",
            "no route to host",
            "network is unreachable",
            "host is unreachable",
        ),
        *(
            "name or service not known",
            "temporary failure in name resolution",
            "permission denied",
            "access denied",
        ),
        *(
            "operation not permitted",
            "no such file or directory",
            "file exists",
            "is a directory",
            "not found",
        ),
        *("file not found", "no space left on device", "disk full", "too many open files", "out of memory"),
        *(
            "cannot allocate memory",
            "input/output error",
            "unexpected eof",
            "unexpected end of file",
            "end of file",
        ),
        *(
            "invalid argument",
            "bad request",
            "internal error",
            "internal server error",
            "service unavailable",
        ),
        *("bad gateway", "gateway timeout", "too many requests", "unknown error", "unexpected error"),
        *("an error occurred", "task failed", "job failed", "operation failed", "request failed", "no data"),
        *(
            "already exists",
            "does not exist",
            "not supported",
            "not allowed",
            "not implemented",
            "invalid value",
        ),
    )
)
# Exceptions that only carry another one.
WRAPPERS = _words(
    """ListenerExecutionFailedException ExecutionException CompletionException InvocationTargetException
    UndeclaredThrowableException TargetInvocationException AggregateException NestedServletException ServletException
    MessageHandlingException MessageDeliveryException HandlerMethodInvocationException AsyncRequestException
    ConsumerException JobExecutionException UncaughtExecutionError WrappedException EJBException RollbackException
    ExecutionError TransactionSystemException ConsumerCancelledException MessagingException ReceiveException
    TypeInitializationException BeanCreationException"""
)
# Exceptions that carry another one if their message is one.
BASE_ERRORS = _words("RuntimeException Exception Error Throwable RuntimeError")
