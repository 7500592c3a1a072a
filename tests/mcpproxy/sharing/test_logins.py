"""Logins in the forms of programs: which passwords, users and hosts are found, and what stays."""

from mcpproxy.sharing.logins import login_parts


def found(text: str, kind: str = "login") -> list[str]:
    return [text[part.start : part.end] for part in login_parts(text) if part.kind == kind]


def test_netrc() -> None:
    text = "machine db.acme.io\n  login anna\n  password swordfish\nmachine b login c account d password e7890 x\n"
    assert found(text) == ["swordfish", "e7890"]
    assert found(text, "login-user") == ["anna", "c"]
    assert found(text, "host") == ["db.acme.io", "b"]
    assert found("default login anonymous password swordfish") == ["swordfish"]
    assert found("machine b password swordfish login c") == ["swordfish"]


def test_oracle() -> None:
    for text, secret, host in (
        ("jdbc:oracle:thin:scott/t1ger@//db7.acme.com:1521/orcl", ["t1ger"], ["db7.acme.com"]),
        ("jdbc:oracle:oci:scott/t1ger@db7:1521:orcl", ["t1ger"], ["db7"]),
        ('jdbc:oracle:thin:scott/"t@ger"@db7', ["t@ger"], ["db7"]),
        ("jdbc:oracle:thin:@db7.acme.com:1521:orcl", [], ["db7.acme.com"]),
        ("sqlplus -s scott/t1ger@db7", ["t1ger"], ["db7"]),
    ):
        assert found(text) == secret, text
        assert found(text, "login-user") == ["scott"][: len(secret)], text
        assert found(text, "host") == host, text


def test_passwords_among_the_options_of_commands() -> None:
    for text, secret in (
        ("mysql -u root -pS3cret9 shop", "S3cret9"),
        ("mysqldump -uroot -psecret --all-databases > x", "secret"),
        ("mysqladmin.exe -psecret ping", "secret"),
        ("mariadb-dump -u a -p'two words' b", "two words"),
        ('mysql -p"two words" b', "two words"),
        ('["mysql", "-u", "root", "-pS3cret9", "shop"]', "S3cret9"),
        ('command="mysql"\x1f\nargs="-u"\x1f\nargs="root"\x1f\nargs="-pS3cret9"\x1f\n', "S3cret9"),
        ("docker exec db mysql -uroot -pS3cret9", "S3cret9"),
        ("sshpass -p hunter22 ssh h", "hunter22"),
        ("sshpass -phunter22 ssh h", "hunter22"),
        ("redis-cli -h r -a hunter22 ping", "hunter22"),
        ("sqlcmd -S h -U sa -P hunter22", "hunter22"),
        ("mongodump --username a --password hunter22", "hunter22"),
    ):
        assert found(text) == [secret], text


def test_what_is_not_a_login_stays() -> None:
    for text in (
        "The machine learning login page has a password field.",
        "machine x login and password prompts",
        "machine translation: login, password",
        "machine b login c password <password>",
        "read/write@v2 and actions/checkout@v4",
        "jdbc:oracle:thin:<user>/<password>@//localhost:1521/x",
        "jdbc:postgresql://localhost/x",
        "mysql -u root -p",
        "mysql -u root -p shop",
        "mysql -p$PASSWORD -p${PASSWORD} -p<password> -p'' x",
        "docker run --name mysql -p3306:3306 -d mysql:8",
        "systemctl restart mysql; ps -p1; mkdir -px",
        "mysql -u root && cp -pr a b",
        "redis-cli -a $PASSWORD",
        'mysql -p\\" x',
        "my-mysql -pS3cret9",
    ):
        assert found(text) == [], text
